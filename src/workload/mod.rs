//! Workload adapters: an object in, a [`Plan`](crate::gang::Plan) or field errors out.
//!
//! An adapter knows one workload kind and no scheduler. All of them read slim, borrowed views of
//! the object as it was sent; what is not listed in a view is skipped by the parser.

pub mod child;
pub mod declaration;
pub mod jobset;
pub mod keys;
pub mod lws;
pub mod template;
pub mod view;

use crate::gang::{FieldError, Plan};

/// What reading a workload found. With errors the plan is incomplete and only good for finding
/// more.
#[derive(Debug, Default)]
pub struct Reading {
    pub plan: Plan,
    pub errors: Vec<FieldError>,
    pub warnings: Vec<String>,
    /// `gangMode` fields that hold YAML's unquoted `Off`, to be normalised: path, warning.
    pub unquoted_off: Vec<(Vec<String>, String)>,
}
