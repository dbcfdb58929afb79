//! How much one object may ask for. What is over a limit is refused with the limit and a way out,
//! before anything is built of it, so that work and memory follow the size of the request.
//!
//! A limit of one workload kind or one scheduler alone stands in its folder.

/// All keys and values of an object's annotations (`TotalAnnotationSizeLimitB` in Kubernetes).
pub(crate) const MAX_ANNOTATIONS: usize = 256 * 1024;

/// An object is one request to etcd, which takes 1.5 MiB (`--max-request-bytes`).
pub(crate) const MAX_OBJECT: usize = 1_500_000;

/// The longest stamp: a quarter of what annotations may hold, since the link that is made of it needs
/// room beside it.
pub(crate) const MAX_STAMP: usize = 64 * 1024;

/// All stamps of a small workload together. On some schedulers each template is stamped with all that
/// starts together with it, so that stamps grow with the square of the groups.
pub(crate) const SMALL_STAMPS: usize = 256 * 1024;

/// The same for a large one, for each byte that it has.
pub(crate) const STAMPS_PER_BYTE: usize = 4;

/// The gangs of one workload, of all its parts together. Each is an object of its own, and the
/// reconciler looks at all of them at once. The aim is 64 MiB and 2 s of CPU for the largest workload,
/// which the `look` cases of `benches/bounds.rs` hold it to.
pub(crate) const MAX_GANGS: u32 = 5_000;
