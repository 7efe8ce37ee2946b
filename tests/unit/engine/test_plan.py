from __future__ import annotations

import json

import pytest

from kektordb.engine import plan
from kektordb.errors import FilterSyntaxError
from kektordb.filters import F, parse, plan_json


def test_text_and_tree_have_one_plan() -> None:
    assert plan.plan_text(None) is None
    for _ in range(2):
        assert json.loads(plan.plan_text("a = 1") or "") == ["eq", "a", "any", 1]
        assert plan.plan_text(F.a == 1) == plan.plan_text("a = 1")
    long = "a = '" + "x" * plan.KEPT_CHARS_MAX + "'"
    assert plan.plan_text(long) == plan_json(parse(long))


def test_a_fault_is_told_every_time() -> None:
    for _ in range(2):
        with pytest.raises(FilterSyntaxError):
            plan.plan_text("a ==")


def test_plans_that_are_kept_are_bounded() -> None:
    for n in range(plan.PLANS_KEPT + 50):
        plan.plan_text(f"a = {n}")
    plan.plan_text("a = '" + "x" * plan.KEPT_CHARS_MAX + "'")
    assert plan._kept.cache_info().currsize == plan.PLANS_KEPT
