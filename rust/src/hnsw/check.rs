//! What must hold of a graph, checked link by link; for `verify` and the tests.

use super::graph::Graph;
use crate::ids::RowId;

/// Most problems that a check spells out.
const MOST_PROBLEMS: usize = 20;

/// What a check found. Cost: a pass over all links.
#[derive(Debug, Clone, Default)]
pub struct Check {
    /// Rows with at least one link, on the ground.
    pub linked: usize,
    pub links: usize,
    /// Rows that a walk from the entry point along ground links reaches.
    pub reachable: usize,
    /// Broken rules; the first [few](MOST_PROBLEMS) in words, the rest only counted.
    pub problems: Vec<String>,
    pub problem_count: usize,
}

impl Graph {
    /// Checks every list: links name rows of the graph on the same layer, never their own, none twice. Exact while no
    /// linker runs.
    pub fn check(&self) -> Check {
        let mut c = Check::default();
        for row in 0..self.rows() as RowId {
            self.check_list::<false>(row, row, 0, &mut c);
        }
        for slot in 0..self.upper.rows() as u32 {
            let (row, level) = self.slot_header(slot);
            if row as usize >= self.rows() {
                c.add(format!("slot {slot} is of row {row}, the graph has {}", self.rows()));
            }
            self.check_list::<true>(slot, row, level, &mut c);
        }
        if let Some(e) = self.entry() {
            if e.row as usize >= self.rows() || e.slot.is_some_and(|s| self.slot_header(s).0 != e.row) {
                c.add(format!("the entry point {e:?} is not a node"));
            }
            c.reachable = self.reachable_from(e.row);
        }
        c
    }

    fn check_list<const UPPER: bool>(&self, node: u32, row: RowId, level: u32, c: &mut Check) {
        let mut links = Vec::new();
        self.each_link::<UPPER>(node, |l| links.push(l));
        c.links += links.len();
        c.linked += usize::from(!UPPER && !links.is_empty());
        for l in &links {
            let there = if UPPER {
                (l.node as usize) < self.upper.rows() && self.slot_header(l.node) == (l.row, level)
            } else {
                (l.row as usize) < self.rows()
            };
            if !there || l.row == row {
                c.add(format!("row {row} links to row {} (node {}) on level {level}", l.row, l.node));
            }
        }
        links.sort_unstable_by_key(|l| l.node);
        if links.windows(2).any(|w| w[0].node == w[1].node) {
            c.add(format!("row {row} has a link twice on level {level}"));
        }
    }

    fn reachable_from(&self, row: RowId) -> usize {
        let mut seen = crate::flat::BitSet::new(self.rows());
        let mut open = vec![row];
        seen.insert(row);
        while let Some(r) = open.pop() {
            self.each_link::<false>(r, |l| {
                if (l.row as usize) < self.rows() && !seen.contains(l.row) {
                    seen.insert(l.row);
                    open.push(l.row);
                }
            });
        }
        seen.count()
    }
}

impl Check {
    fn add(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }
}
