"""From words to a `View`: which moment, which states, how much trust. Pure.

Nothing else in the memory turns a wish of a caller into what a reader may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kektordb.errors import InvalidArgumentError
from kektordb.memory import checks
from kektordb.memory.rights import require
from kektordb.memory.time import MomentLike, parse_moment
from kektordb.model.view import Life, Principal, Trust, View

EVERY_LIFE = frozenset(life for life in Life if life is not Life.GONE)
REVIEWED = frozenset({Life.PENDING, Life.QUARANTINED, Life.REJECTED})
"""States that only a reviewer may ask for."""


@dataclass(frozen=True, slots=True)
class Lens:
    """A view, and whether times are ignored only for what a later version ended."""

    view: View
    ended_by_version: bool = False

    def ask(
        self,
        *,
        life: Sequence[str | Life] | None = None,
        include: Sequence[str | Life] = (),
        as_of: MomentLike | None = None,
        valid_at: MomentLike | None = None,
        min_trust: str | Trust | None = None,
    ) -> Lens:
        """This lens with what is named changed.

        ``include`` adds to it: a life state, "expired" or "future" (rows outside their valid window), "stale", "refuted".
        "superseded" shows what a later version replaced, whether it was wrong (belief time) or ended (world time).
        """
        states, names = set(self.view.life if life is None else ()), set()
        for one in [*(life or ()), *include]:
            if one in ("expired", "future", "stale", "refuted"):
                names.add(one)
            else:
                states.add(_state(one))
        if self.view.principal is not None and not states.isdisjoint(REVIEWED):
            require(self.view.principal, "review", to="read what waits for review or was kept out")
        asked_ever = bool(names & {"expired", "future"})
        asked_replaced = Life.SUPERSEDED in states and valid_at is None and self.view.valid_at is None
        view = replace(
            self.view,
            life=frozenset(states),
            as_of=self.view.as_of if as_of is None else parse_moment(as_of, what="as_of").micros,
            valid_at=self.view.valid_at if valid_at is None else parse_moment(valid_at, what="valid_at").micros,
            min_trust=self.view.min_trust if min_trust is None else checks.trust(min_trust),
            stale=self.view.stale or "stale" in names,
            refuted=self.view.refuted or "refuted" in names,
            ever=self.view.ever or asked_ever or asked_replaced,
        )
        by_version = view.ever and not asked_ever and (self.ended_by_version or not self.view.ever)
        return Lens(view, by_version)


def everything(view: View) -> View:
    """All that the principal's scope holds, in whatever state: for histories, and for writers that must count versions."""
    return replace(view, life=EVERY_LIFE, ever=True, stale=True, refuted=True, min_trust=Trust.OUTSIDE)


def every_scope() -> View:
    """For a writer that must reach what others derived from a retracted source. Nothing read under it is handed out."""
    return everything(View(principal=None))


def default_lens(principal: Principal) -> Lens:
    return Lens(View(principal=principal))


def _state(value: str | Life) -> Life:
    found = checks.member(value, Life, what="a life state")
    if found is Life.GONE:
        raise InvalidArgumentError("'gone' is no state of a memory", hint="replaced records are in no view")
    return found
