"""The visibility rule again, slow and plain: what `rust/src/view/rule.rs` must agree with.

Written from the words of the rule and not from the Rust code, so that a fault in one shows as a difference.
"""

from __future__ import annotations

from kektordb.engine.protocol import Row
from kektordb.model.view import Belief, Life, Principal, Scope, View


def visible(row: Row, view: View, now: int) -> bool:
    """May a reader under `view`, standing at belief time `now`, see `row`?"""
    if not in_scope(row.stamps.scope, view.principal):
        return False
    state = life_at(row, now if view.as_of is None else view.as_of)
    if state is None or state is Life.GONE or state not in view.life:
        return False
    if not view.ever:
        moment = now if view.valid_at is None else view.valid_at
        if moment < row.stamps.valid_from or moment >= row.stamps.valid_to:
            return False
    if row.stamps.belief is Belief.REFUTED and not view.refuted:
        return False
    if row.stamps.trust < view.min_trust:
        return False
    return view.stale or not row.stamps.stale


def life_at(row: Row, moment: int) -> Life | None:
    """The state at a belief time: its own during [tx_from, tx_to), `end_life` after, None before it was known."""
    if moment < row.tx_from:
        return None
    return row.stamps.life if moment < row.tx_to else row.end_life


def in_scope(scope: Scope, principal: Principal | None) -> bool:
    """Each part of the row's scope is open, or is the principal's own. No principal: every scope."""
    if principal is None:
        return True
    parts = (
        (scope.user, principal.user),
        (scope.agent, principal.agent),
        (scope.session, principal.session),
    )
    return all(part is None or part == own for part, own in parts)
