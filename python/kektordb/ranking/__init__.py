"""Pure ranking: scaling and summing of scores, spreading over neighbours, dropping doubles, fitting a budget. No I/O, no clock."""

from kektordb.ranking.budget import Fitted, estimate_tokens, fit
from kektordb.ranking.dedupe import Doubles, Shown, near_equal, without_doubles
from kektordb.ranking.explain import explain
from kektordb.ranking.fuse import balance, fuse, hybrid, scaled, total
from kektordb.ranking.hits import RecallHit
from kektordb.ranking.windows import Layout

__all__ = [
    "Doubles",
    "Fitted",
    "Layout",
    "RecallHit",
    "Shown",
    "balance",
    "estimate_tokens",
    "explain",
    "fit",
    "fuse",
    "hybrid",
    "near_equal",
    "scaled",
    "total",
    "without_doubles",
]
