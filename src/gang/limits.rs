//! How much one object may ask for. What is over a limit is refused with the limit and a way out,
//! before anything is built of it, so that work and memory follow the size of the request.
//!
//! A limit of one workload kind or one scheduler alone stands in its folder.

/// All keys and values of an object's annotations (`TotalAnnotationSizeLimitB` in Kubernetes).
pub const MAX_ANNOTATIONS: usize = 256 * 1024;

/// etcd takes requests of up to 1.5 MiB, and an object is one request.
pub const MAX_OBJECT: usize = 1_500_000;

/// The gangs of one workload, of all its parts together. Each is an object of its own, and the
/// reconciler looks at all of them at once, in at most 64 MiB and 2 s of CPU.
pub const MAX_GANGS: u32 = 5_000;
