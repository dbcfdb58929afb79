//! Workload adapters: an object in, a [`Plan`](crate::gang::Plan) or field errors out.
//!
//! An adapter knows one workload kind and no scheduler. All of them read slim, borrowed views of
//! the object as it was sent; what is not listed in a view is skipped by the parser.

pub mod child;
pub mod declaration;
pub mod jobset;
pub mod keys;
pub mod view;
