"""Every state against every event."""

from __future__ import annotations

import itertools

import pytest

from kektordb.errors import TransitionError
from kektordb.memory.lifecycle import STATES, TABLE, Event, Refused, Step, step
from kektordb.model.view import Life

# The steps that the model names, written out apart from the table; whatever is not here must be refused.
ALLOWED = {
    (None, Event.SAVE): Life.ACTIVE,
    (None, Event.HOLD): Life.PENDING,
    (Life.PENDING, Event.APPROVE): Life.ACTIVE,
    (Life.PENDING, Event.REJECT): Life.REJECTED,
    (Life.QUARANTINED, Event.REJECT): Life.REJECTED,
    (Life.ACTIVE, Event.EVOLVE): Life.SUPERSEDED,
    (Life.ACTIVE, Event.CONSOLIDATE): Life.CONSOLIDATED,
    (Life.ACTIVE, Event.CONTEST): Life.ACTIVE,
    (Life.ACTIVE, Event.PICK): Life.ACTIVE,
    (Life.ACTIVE, Event.DROP): Life.RETRACTED,
    (Life.ACTIVE, Event.KEEP_BOTH): Life.ACTIVE,
    (Life.ACTIVE, Event.RETRACT): Life.RETRACTED,
    (Life.QUARANTINED, Event.RETRACT): Life.RETRACTED,
    (Life.ACTIVE, Event.END): Life.ACTIVE,
    (Life.ACTIVE, Event.QUARANTINE): Life.QUARANTINED,
    **{(s, e): s for s in (Life.ACTIVE, Life.PENDING, Life.QUARANTINED) for e in (Event.MARK_STALE, Event.FRESHEN)},
    **{
        (s, Event.RESTORE): Life.ACTIVE
        for s in (Life.SUPERSEDED, Life.CONSOLIDATED, Life.RETRACTED, Life.QUARANTINED, Life.REJECTED)
    },
    **{(s, Event.ERASE): Life.ERASED for s in STATES if s not in (None, Life.ERASED)},
}


def test_every_pair_of_state_and_event_is_in_the_table() -> None:
    wanted = set(itertools.product([None, *(life for life in Life if life is not Life.GONE)], Event))
    assert set(TABLE) == wanted
    assert set(STATES) == {state for state, _ in wanted}


@pytest.mark.parametrize("event", Event, ids=lambda e: e.name.lower())
@pytest.mark.parametrize("state", STATES, ids=lambda s: "absent" if s is None else s.name.lower())
def test_a_step_leads_where_the_model_says_or_is_refused_with_advice(state: Life | None, event: Event) -> None:
    if (state, event) in ALLOWED:
        assert step(state, event).to is ALLOWED[state, event]
    else:
        with pytest.raises(TransitionError, match=event.value) as refusal:
            step(state, event, id="m_1.1")
        assert refusal.value.hint


def test_what_takes_a_source_away_cascades_and_nothing_else_does() -> None:
    cascading = {event for (_, event), found in TABLE.items() if isinstance(found, Step) and found.cascades}
    assert cascading == {Event.RETRACT, Event.DROP, Event.REJECT, Event.ERASE}


def test_no_step_leads_out_of_erased() -> None:
    assert all(isinstance(TABLE[Life.ERASED, event], Refused) for event in Event)
