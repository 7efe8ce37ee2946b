//! The transaction boundary.

mod id_table;
mod rec;
pub mod record;
