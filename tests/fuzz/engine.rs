//! Runs a target: its corpus, then cases made from bytes, until it has had its executions or its
//! time. Under `cargo bolero` the bytes come from a coverage-guided engine; else from a generator of
//! numbers with a fixed seed, so that two runs try the same cases.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bolero::bolero_engine::driver::Options;
use bolero::bolero_engine::input::{Bytes, SliceDebug};
use bolero::bolero_engine::panic;
use bolero::{Engine, TargetLocation, Test, TestTarget};
use libtest_mimic::{Failed, Trial};

use crate::bounds::cpu;
use crate::choices::Choices;

/// Something that is fuzzed.
pub trait Target {
    /// An input, as the corpus has it.
    type Case;
    /// Its name, which is that of its folder in the corpus.
    const NAME: &'static str;
    /// How many cases are made, where the time is not up before. A twentieth must have been.
    const EXECUTIONS: usize;

    /// Reads a case of the corpus.
    fn read(&self, file: &[u8]) -> Self::Case;
    /// Makes a case.
    fn make(&self, choices: &mut Choices<'_>) -> Self::Case;
    /// A case as a file of the corpus.
    fn write(&self, case: &Self::Case) -> Vec<u8>;
    /// Panics where a promise is broken.
    fn check(&self, case: &Self::Case);
}

/// CPU time of one target in `cargo test`; `MUSTER_FUZZ_SECONDS` gives all of them another.
const SECONDS: u64 = 3;

/// The folder of a target's corpus.
pub fn corpus(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join("fuzz/corpus").join(name)
}

/// The files of a folder, in order.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let read = |path: PathBuf| (name(&path), std::fs::read(&path).unwrap());
    paths.into_iter().map(read).collect()
}

/// The test of a target.
pub fn trial<T: Target + Send + 'static>(make: fn() -> T) -> Trial {
    Trial::test(T::NAME, move || {
        if cfg!(fuzzing) {
            guided(&make());
            return Ok(());
        }
        panic::set_hook();
        // A case that panics is told with its input.
        panic::forward_panic(false);
        let mut executions = 0;
        let run = run(&make(), &mut executions);
        panic::forward_panic(true);
        let failures = usize::from(run.is_err());
        let line = format!(
            "fuzz {}: {executions} executions, {failures} failures",
            T::NAME
        );
        RESULTS.lock().unwrap().push(line);
        run.map_err(Failed::from)
    })
}

static RESULTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints the executions of each target.
pub fn print_results() {
    for line in RESULTS.lock().unwrap().iter() {
        println!("{line}");
    }
}

/// Runs a target, and counts its executions.
fn run<T: Target>(target: &T, executions: &mut usize) -> Result<(), String> {
    let files = files(&corpus(T::NAME));
    if files.is_empty() {
        return Err("its corpus is empty".to_owned());
    }
    for (name, bytes) in &files {
        *executions += 1;
        let one = || target.check(&target.read(bytes));
        if catch_unwind(AssertUnwindSafe(one)).is_err() {
            let why = panic::take_panic().map_or_else(String::new, |error| error.to_string());
            return Err(format!("corpus/{}/{name}: {why}", T::NAME));
        }
    }
    let whole = AssertUnwindSafe(&target);
    let before = *executions;
    let counted = AtomicUsize::new(0);
    let check = |bytes: &[u8]| {
        counted.fetch_add(1, Ordering::Relaxed);
        let target = &whole;
        target.check(&target.make(&mut Choices::new(bytes)));
    };
    let bounded = Bounded::new::<T>();
    let least = T::EXECUTIONS / 20;
    let made = TestTarget::new(bounded).for_each(check);
    *executions = before + counted.into_inner();
    made.map_err(|(bytes, why)| {
        let case = target.write(&target.make(&mut Choices::new(&bytes)));
        let path = keep(T::NAME, &case);
        let text: String = String::from_utf8_lossy(&case).chars().take(2000).collect();
        format!("{why}\n{text}\nThe case is in {path}: it belongs in the corpus.")
    })?;
    if *executions < least {
        return Err(format!(
            "only {executions} executions, at least {least} are wanted"
        ));
    }
    Ok(())
}

/// Leaves the bytes to the engine of `cargo bolero`, which runs until it is stopped.
fn guided<T: Target>(target: &T) {
    // `bolero::check!` takes the name from the function that it stands in, and this is one for all.
    let path = format!("fuzz::{}::__bolero_item_path__", T::NAME);
    let location = TargetLocation {
        package_name: env!("CARGO_PKG_NAME"),
        manifest_dir: env!("CARGO_MANIFEST_DIR"),
        module_path: module_path!(),
        file: file!(),
        line: line!(),
        item_path: kept(path),
        test_name: Some(T::NAME.to_owned()),
    };
    if location.should_run() {
        let target = AssertUnwindSafe(target);
        bolero::test(location).for_each(|bytes: &[u8]| {
            let target = &target;
            target.check(&target.make(&mut Choices::new(bytes)));
        });
    }
}

/// A text for good, and still reachable: the sanitizer reports what is not.
fn kept(text: String) -> &'static str {
    static KEPT: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let text: &'static str = text.leak();
    KEPT.lock().unwrap().push(text);
    text
}

/// Writes a case that fails below `target/`, and says where.
fn keep(name: &str, bytes: &[u8]) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let path = folder.join(format!("{name}-found"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// The engine of `cargo test`.
struct Bounded {
    executions: usize,
    time: Duration,
    random: Random,
}

impl Bounded {
    fn new<T: Target>() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let seconds = number("MUSTER_FUZZ_SECONDS");
        let seed = number("MUSTER_FUZZ_SEED").unwrap_or(0);
        Self {
            executions: match seconds {
                Some(_) => usize::MAX,
                None => T::EXECUTIONS,
            },
            time: Duration::from_secs(seconds.unwrap_or(SECONDS)),
            random: Random(seed),
        }
    }
}

impl<T: Test<Value = SliceDebug<Vec<u8>>>> Engine<T> for Bounded {
    /// The input that fails, and why.
    type Output = Result<(), (Vec<u8>, String)>;

    fn run(mut self, mut test: T, options: Options) -> Self::Output {
        let start = cpu();
        for _ in 0..self.executions {
            if cpu() - start > self.time {
                break;
            }
            let bytes = self.random.bytes();
            if let Err(error) = test.test(&mut Bytes::new(&bytes, &options)) {
                let why = error.to_string();
                return Err(match test.shrink(bytes.clone(), None, &options) {
                    Some(shrunk) => (shrunk.input.to_vec(), shrunk.error.to_string()),
                    None => (bytes, why),
                });
            }
        }
        Ok(())
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Some bytes, mostly few.
    fn bytes(&mut self) -> Vec<u8> {
        let words = 2 + self.next() % (4 << (self.next() % 5));
        (0..words).flat_map(|_| self.next().to_le_bytes()).collect()
    }
}
