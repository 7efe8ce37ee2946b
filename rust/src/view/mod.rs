//! Who sees what: the one rule, and the bitmaps that answer it fast.
//!
//! [`rule::visible`] is the definition. [`allow::ViewIndex`] keeps bitmaps at commit so that the usual view (now, active,
//! this principal) costs a few ANDs; any other view is computed row by row with the rule itself.
//! May import `error`, `ids`. No I/O.

pub mod allow;
pub mod rule;

pub use allow::ViewIndex;
pub use rule::{Belief, Life, LifeSet, Principal, Stamps, Trust, View, visible};
