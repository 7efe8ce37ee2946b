"""Moments as people write them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.errors import InvalidArgumentError
from kektordb.memory.time import (
    ALWAYS,
    NEVER,
    Moment,
    datetime_of,
    iso,
    micros_of,
    parse_moment,
    parse_window,
)

MAY = micros_of(datetime(2026, 5, 1))


@pytest.mark.parametrize(
    ("value", "precision", "text"),
    [
        ("2026", "year", "2026-01-01T00:00:00Z"),
        ("2026-05", "month", "2026-05-01T00:00:00Z"),
        ("2026-05-08", "day", "2026-05-08T00:00:00Z"),
        (" 2026-05-08 ", "day", "2026-05-08T00:00:00Z"),
        (date(2026, 5, 8), "day", "2026-05-08T00:00:00Z"),
        ("2026-05-08T13:56", "instant", "2026-05-08T13:56:00Z"),
        ("2026-05-08 13:56:01.5", "instant", "2026-05-08T13:56:01.500000Z"),
        ("2026-05-08T13:56:00Z", "instant", "2026-05-08T13:56:00Z"),
        ("2026-05-08T13:56:00+02:00", "instant", "2026-05-08T11:56:00Z"),
        (datetime(2026, 5, 8, 13, 56), "instant", "2026-05-08T13:56:00Z"),
        (datetime(2026, 5, 8, 13, 56, tzinfo=timezone(timedelta(hours=-5))), "instant", "2026-05-08T18:56:00Z"),
        (MAY, "instant", "2026-05-01T00:00:00Z"),
        ("1969-12-31T23:59:59.999999Z", "instant", "1969-12-31T23:59:59.999999Z"),
        ("0001", "year", "0001-01-01T00:00:00Z"),
        ("9999-12-31", "day", "9999-12-31T00:00:00Z"),
    ],
)
def test_a_moment_keeps_its_precision_and_is_utc(value: object, precision: str, text: str) -> None:
    moment = parse_moment(value, what="valid_from")  # type: ignore[arg-type]
    assert (iso(moment.micros), moment.precision) == (text, precision)


@pytest.mark.parametrize(
    "value",
    ["", "yesterday", "last week", "2026-13", "2026-02-30", "26-05-08", "2026-5-8", "20260508", "2026-W05", "2026-05-08T25:00",
     "0000", True, None, 1.5, 2**63 - 1, -(2**63), "２０２６"],
)  # fmt: skip
def test_what_is_no_moment_is_refused_by_the_name_of_its_argument(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="valid_at"):
        parse_moment(value, what="valid_at")  # type: ignore[arg-type]


def test_a_value_without_a_date_takes_the_reference_and_never_now() -> None:
    assert parse_window(None, None).start is ALWAYS
    assert parse_window(None, None, reference=MAY).start == Moment(MAY)
    assert parse_window("2020", None, reference=MAY).start == parse_moment("2020", what="x")
    assert parse_window(None, None, reference=MAY).end is NEVER


def test_what_was_over_when_it_was_said_does_not_begin_then() -> None:
    window = parse_window(None, "2020", reference=MAY)
    assert window.start is ALWAYS
    assert window.end.precision == "year"


@pytest.mark.parametrize(
    ("start", "end"), [("2026", "2026"), ("2026-02", "2026-01"), ("2026", "2026-01-01"), ("2027", "2026")]
)
def test_a_window_that_holds_at_no_moment_is_refused(start: str, end: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not after"):
        parse_window(start, end)
    assert parse_window("2025", end).end.micros > parse_window("2025", end).start.micros


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds_and_datetimes_are_the_same_moment(at: datetime) -> None:
    assert datetime_of(micros_of(at)) == at
    assert parse_moment(iso(micros_of(at)), what="x").micros == micros_of(at)


def test_open_ends_have_no_datetime() -> None:
    assert datetime_of(ALWAYS.micros) is None
    assert datetime_of(NEVER.micros) is None


SCRIPT = """
import json
from kektordb.memory import MemoryStore
from kektordb.memory.time import parse_moment
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore
clock = FakeClock("2026-03-29T00:59:59")
store = NaiveStore(clock=clock)
mem = MemoryStore(store, "t", embedder=FakeEmbedder(), clock=clock)
out = []
for day in ("2026-03-08T02:30:00", "2026-03-29T02:30:00", "2026-10-25T02:30:00", "2026-05", "2020"):
    clock.advance(hours=1)
    out.append(mem.save(day, valid_from=day).to_json())
out += [m.to_json() for m in mem.save_turns([{"speaker": "Ann", "text": "hi", "at": "2026-03-08T02:30:00"}], session="s")]
for value in out:
    for key in ("id", "lineage"):
        del value[key]
print(json.dumps([out, parse_moment("2026-03-08T02:30", what="x").micros]))
"""


def test_the_same_script_writes_the_same_times_in_every_time_zone() -> None:
    answers = {
        zone: subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles", "America/New_York")
    }
    assert len(set(answers.values())) == 1
    assert "2026-03-08T02:30:00Z" in answers["UTC"]
