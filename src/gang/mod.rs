//! The model: what a gang is. Pure data and pure functions.

pub mod field;
pub mod quantity;
pub mod resources;
