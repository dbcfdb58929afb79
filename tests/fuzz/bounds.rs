//! The bounds that every answer is held to, whatever was sent: CPU time, memory and the length of
//! the response. They are those of `benches/bounds.rs`.

use std::time::Duration;

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;

/// The longest body that the apiserver sends.
pub const LONGEST: usize = 7 * MIB;

/// A build without optimisation is about twenty times slower, and twice that leaves room for a busy
/// machine. Memory and the length of a response are what they are in any build.
const SLOWER: u32 = if cfg!(debug_assertions) || cfg!(fuzzing) {
    40
} else {
    1
};

/// What one answer may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    cpu: Duration,
    memory: usize,
    pub response: usize,
}

/// The bounds of a body of so many bytes.
pub fn of(body: usize) -> Bounds {
    match body {
        0..=16_384 => Bounds {
            cpu: Duration::from_millis(5),
            memory: 2 * MIB,
            response: 2 * MIB,
        },
        _ => LARGE,
    }
}

/// The bounds of a large body, and of a command line that works on any.
pub const LARGE: Bounds = Bounds {
    cpu: Duration::from_secs(1),
    memory: 200 * MIB,
    response: 3 * MIB,
};

/// Does the work within the bounds, or panics.
pub fn hold<R>(bounds: Bounds, work: impl Fn() -> R) -> R {
    let limit = bounds.cpu * SLOWER;
    let (mut result, mut took) = measured(bounds, &work);
    // The first time may be the machine's; what is slow is slow again.
    for _ in 0..3 {
        if took <= limit {
            break;
        }
        let again = measured(bounds, &work);
        (result, took) = (again.0, took.min(again.1));
    }
    assert!(took <= limit, "took {took:?} of CPU, at most {limit:?}");
    result
}

fn measured<R>(bounds: Bounds, work: &impl Fn() -> R) -> (R, Duration) {
    HEAP.reset_peak_usage();
    let (before, start) = (HEAP.current_usage(), cpu());
    let result = work();
    let took = cpu() - start;
    let more = HEAP.peak_usage().saturating_sub(before);
    let most = bounds.memory;
    assert!(more <= most, "took {more} bytes of memory, at most {most}");
    (result, took)
}

/// The time that this thread was on a CPU: others use the machine too.
pub fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
