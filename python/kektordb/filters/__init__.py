"""The filter language: text or `F` to a tree, a tree to a plan of set operations, and an oracle of what it means.

Pure Python without I/O. `grammar.md` beside this file is the grammar; the guide gives the meaning of every operator.
"""

from kektordb.filters.build import F, Field, parse_filter, parse_path
from kektordb.filters.evaluate import evaluate
from kektordb.filters.parser import parse
from kektordb.filters.paths import encode_path
from kektordb.filters.plan import Plan, Postings, plan, plan_json, run
from kektordb.filters.render import render
from kektordb.filters.tree import (
    And,
    Between,
    Bool,
    Compare,
    Contains,
    Exists,
    Expr,
    In,
    IsNull,
    Like,
    Moment,
    Not,
    Number,
    Or,
    StartsWith,
    Text,
)

__all__ = [
    "And",
    "Between",
    "Bool",
    "Compare",
    "Contains",
    "Exists",
    "Expr",
    "F",
    "Field",
    "In",
    "IsNull",
    "Like",
    "Moment",
    "Not",
    "Number",
    "Or",
    "Plan",
    "Postings",
    "StartsWith",
    "Text",
    "encode_path",
    "evaluate",
    "parse",
    "parse_filter",
    "parse_path",
    "plan",
    "plan_json",
    "render",
    "run",
]
