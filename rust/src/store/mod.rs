//! The transaction boundary: one log record = one transaction; rows leave only through a reader bound to a view.

mod apply;
mod checkpoint;
mod checks;
mod collection;
mod commit;
mod database;
#[cfg(test)]
mod faults;
mod files;
mod heap;
mod id_table;
mod layout;
mod load;
mod manifest;
mod names;
mod options;
mod plan;
mod reader;
mod rec;
pub mod record;
mod restage;
mod shared;
mod spec;
mod stage;
mod transaction;
mod vacuum;
mod verify;
mod worker;

pub use database::Database;
pub use options::Options;
pub use plan::Plan;
#[allow(unused_imports)]
pub(crate) use reader::Reader;
pub use reader::{Found, RowOut, Search};
pub use spec::{IndexKind, Spec, check_name};
pub use transaction::{Committed, Durability, Expect, Transaction};
pub use verify::verify;
