//! The one definition of "visible".

use crate::ids::{EVER, FOREVER, Micros};

macro_rules! coded {
    ($(#[$m:meta])* $name:ident { $($(#[$vm:meta])* $v:ident = $n:literal),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vm])* $v = $n),+ }
        impl $name {
            /// Total decoding of a byte from disk or from a caller.
            pub fn from_u8(n: u8) -> Option<Self> {
                match n { $($n => Some($name::$v),)+ _ => None }
            }
        }
    };
}

coded! {
    /// Life state of a record. The numbers are on disk.
    Life {
        /// In no view: the record was replaced by another record of the same version.
        Gone = 0,
        Active = 1,
        Pending = 2,
        Superseded = 3,
        Consolidated = 4,
        Retracted = 5,
        Quarantined = 6,
        Rejected = 7,
        Erased = 8,
    }
}

coded! {
    /// Belief state of a record. The numbers are on disk.
    Belief { Asserted = 0, Corroborated = 1, Contested = 2, Refuted = 3 }
}

coded! {
    /// Where a statement comes from, least trusted first. The numbers are on disk.
    Trust { Outside = 0, Inference = 1, Import = 2, Tool = 3, User = 4 }
}

/// A set of life states. `Gone` is never in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LifeSet(u16);

impl LifeSet {
    pub const ACTIVE: LifeSet = LifeSet(1 << Life::Active as u8);

    pub fn of(states: impl IntoIterator<Item = Life>) -> Self {
        LifeSet(states.into_iter().filter(|l| *l != Life::Gone).fold(0, |s, l| s | 1 << l as u8))
    }

    #[inline]
    pub fn contains(self, l: Life) -> bool {
        l != Life::Gone && self.0 & (1 << l as u8) != 0
    }
}

/// An interned name of a user, agent or session; 0 = not set.
pub type NameId = u32;

/// A name that no row carries: what a principal gets whose name was never seen.
pub const UNKNOWN_NAME: NameId = u32::MAX;

/// What the rule reads of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    pub tx_from: Micros,
    pub tx_to: Micros,
    pub valid_from: Micros,
    pub valid_to: Micros,
    pub user: NameId,
    pub agent: NameId,
    pub session: NameId,
    /// State during `[tx_from, tx_to)`.
    pub life: Life,
    /// State from `tx_to` on.
    pub end_life: Life,
    pub belief: Belief,
    pub trust: Trust,
    pub stale: bool,
}

impl Default for Stamps {
    fn default() -> Self {
        Stamps {
            tx_from: EVER,
            tx_to: FOREVER,
            valid_from: EVER,
            valid_to: FOREVER,
            user: 0,
            agent: 0,
            session: 0,
            life: Life::Active,
            end_life: Life::Gone,
            belief: Belief::Asserted,
            trust: Trust::User,
            stale: false,
        }
    }
}

impl Stamps {
    /// The state at belief time `t`; `Gone` before the record was made.
    #[inline]
    pub fn life_at(&self, t: Micros) -> Life {
        if t < self.tx_from {
            Life::Gone
        } else if t < self.tx_to {
            self.life
        } else {
            self.end_life
        }
    }
}

/// Whose rows may be read: a set part of a row must equal the principal's; an unset part is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Principal {
    pub user: NameId,
    pub agent: NameId,
    pub session: NameId,
}

/// What a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct View {
    /// None: every scope.
    pub principal: Option<Principal>,
    /// Belief time; `None` = now.
    pub as_of: Option<Micros>,
    /// World time; `None` = now.
    pub valid_at: Option<Micros>,
    /// Ignores the valid window.
    pub ever: bool,
    pub life: LifeSet,
    pub refuted: bool,
    pub stale: bool,
    pub min_trust: Trust,
}

impl View {
    /// Now, active, every scope: the view of a plain collection.
    pub const OWNER: View = View {
        principal: None,
        as_of: None,
        valid_at: None,
        ever: false,
        life: LifeSet::ACTIVE,
        refuted: false,
        stale: false,
        min_trust: Trust::Outside,
    };

    /// True where the current-state bitmaps answer all but scope, trust and the valid window.
    pub fn is_current(&self) -> bool {
        self.as_of.is_none() && self.life == LifeSet::ACTIVE && !self.refuted && !self.stale
    }
}

/// The rule. `now` is the reader's moment, used where the view names none.
pub fn visible(row: &Stamps, view: &View, now: Micros) -> bool {
    let t = view.as_of.unwrap_or(now);
    let w = view.valid_at.unwrap_or(now);
    let open_or = |part: NameId, own: NameId| part == 0 || part == own;
    view.life.contains(row.life_at(t))
        && view.principal.is_none_or(|p| {
            open_or(row.user, p.user) && open_or(row.agent, p.agent) && open_or(row.session, p.session)
        })
        && (view.ever || (row.valid_from <= w && w < row.valid_to))
        && (view.refuted || row.belief != Belief::Refuted)
        && row.trust >= view.min_trust
        && (view.stale || !row.stale)
}
