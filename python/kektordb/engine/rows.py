"""Rows as the extension gives them become `Row` values."""

from __future__ import annotations

import json
from typing import Any

from kektordb.engine.protocol import Row
from kektordb.model.view import Belief, Life, Scope, Stamps, Trust


def row_of(raw: Any) -> Row:
    row_id, payload, vector, (states, valid, scope, times) = raw
    life, belief, trust, stale = states
    return Row(
        id=row_id,
        payload=None if payload is None else (json.loads(payload) if payload else {}),
        vector=vector,
        stamps=Stamps(
            life=Life(life),
            belief=Belief(belief),
            trust=Trust(trust),
            scope=Scope(*scope),
            valid_from=valid[0],
            valid_to=valid[1],
            stale=stale,
        ),
        tx_from=times[0],
        tx_to=times[1],
        end_life=Life(times[2]),
    )
