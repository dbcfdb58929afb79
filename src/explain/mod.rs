//! Why a gang waits: from what is known of it to its causes, what must be mended first first.
//!
//! - [`cause`]: the causes, each with its evidence as data. A closed list.
//! - [`evidence`]: what is known of one gang, and the causes that follow from it.
//! - [`refusal`]: what a controller was told when it could not create a pod.
//! - [`words`]: what a scheduler says in a pod's condition.
//! - [`room`]: what nodes have left, for how many members, and who has the rest; [`nodes`] says which
//!   of them a pod may use, and [`fit`] is the answer.
//! - `text`: the sentences, the same for all schedulers; `short`: a few words for a table;
//!   `amount` and `asked`: how resources and nodes are written in both; `next_step`: what to type next.
//!
//! Pure: no client, no clock, no cache. The reconciler and `muster explain` call the same functions.

mod amount;
mod asked;
pub mod cause;
pub mod evidence;
pub mod fit;
mod next_step;
pub mod nodes;
pub mod refusal;
pub mod room;
mod short;
#[cfg(test)]
mod tests;
mod text;
pub mod words;

pub use cause::Cause;
pub use evidence::{Answer, Evidence, causes};
pub use next_step::Place;
