//! Names of users, agents and sessions, interned: rows carry numbers.

use crate::view::rule::NameId;
use std::collections::HashMap;

/// Interns names while a record is applied.
pub(crate) trait Names {
    fn intern(&mut self, name: &str) -> NameId;
}

#[derive(Debug, Default)]
pub(super) struct NameTable {
    list: Vec<String>,
    by_name: HashMap<String, NameId>,
}

impl NameTable {
    pub(super) fn from_list(list: Vec<String>) -> Self {
        let by_name = list.iter().enumerate().map(|(i, n)| (n.clone(), i as NameId + 1)).collect();
        NameTable { list, by_name }
    }

    pub(super) fn list(&self) -> &[String] {
        &self.list
    }

    pub(super) fn id(&self, name: &str) -> Option<NameId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn name(&self, id: NameId) -> Option<&str> {
        self.list.get((id as usize).checked_sub(1)?).map(String::as_str)
    }
}

impl Names for NameTable {
    fn intern(&mut self, name: &str) -> NameId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        self.list.push(name.into());
        let id = self.list.len() as NameId;
        self.by_name.insert(name.into(), id);
        id
    }
}
