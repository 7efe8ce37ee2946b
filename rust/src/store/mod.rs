//! The transaction boundary: one log record = one transaction; rows leave only through a reader bound to a view.

mod checkpoint;
mod collection;
mod database;
#[cfg(test)]
mod faults;
mod files;
mod heap;
mod id_table;
mod manifest;
mod plan;
mod reader;
mod rec;
pub mod record;
mod restage;
mod spec;
mod vacuum;

pub use checkpoint::verify;
pub use database::{Committed, Database, Durability, Expect, Options, Transaction};
pub use plan::Plan;
#[allow(unused_imports)]
pub(crate) use reader::Reader;
pub use reader::{Found, RowOut, Search};
pub use spec::{IndexKind, Spec, check_name};
