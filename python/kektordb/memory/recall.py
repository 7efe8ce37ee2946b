"""Ranked recall over a `Reader`: candidates, their neighbours in the session, scores, fading, doubles, token budget.

Promised: only rows that the reader's view shows and the filter passes are ranked, lend to a neighbour, or are counted; the first
hits for k are the first hits for any larger k; equal scores come in id order. No model is called and nothing is written.

Cost: two searches, one fetch, one scan, one `dense_scores` and up to two `text_scores` per word of the question over a pool of at
most about a thousand rows, whatever the size of the memory.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Protocol

import numpy as np

from kektordb.engine.protocol import Json, Reader, Row, Vector
from kektordb.errors import InvalidArgumentError, LimitExceededError
from kektordb.memory import cues as question_cues
from kektordb.memory import recall_weights, signals, trees
from kektordb.memory.cues import Cues
from kektordb.memory.lexicon import forms, kin
from kektordb.memory.mentions import day_of
from kektordb.ranking import Layout, RecallHit, balance, estimate_tokens, fit, fuse, hybrid, total
from kektordb.ranking.dedupe import Doubles
from kektordb.ranking.fuse import Scores

MAX_K: Final = 1_000
MAX_QUERY_CHARS: Final = 8_192
POOL: Final = 200
"""Candidates of each arm. Fixed, so that the ranking does not depend on k."""
POOL_GROWTH: Final = 4
"""When k asks for more than the pool holds, the arms are asked for this many times as many ..."""
MAX_POOL: Final = 12_800
"""... up to so many."""
NEAR_BEST: Final = 60
"""Candidates of each arm whose neighbours join the pool."""
REACH: Final = 4
"""Turns before and after a candidate that join."""
VERSIONS_BESIDE: Final = 2
"""Of one place, if the view shows more than the current one."""
SHORT_LIST: Final = 160
"""Rows whose texts are read."""
KIN_SHARE: Final = 0.6
"""What a word used for the same thing counts, beside the word itself."""
SECOND_US: Final = 1_000_000


class LayerRule(Protocol):
    """How memories of a layer fade and count."""

    @property
    def half_life_s(self) -> float | None: ...
    @property
    def decay(self) -> str: ...
    @property
    def pinned(self) -> bool: ...
    @property
    def weight(self) -> float: ...


class LayerRules(Protocol):
    def layer(self, name: str) -> LayerRule: ...


class AccessData(Protocol):
    """What is known of a lineage's use."""

    @property
    def accesses(self) -> int: ...
    @property
    def last_us(self) -> int | None: ...
    @property
    def pinned(self) -> bool | None: ...


AccessOf = Callable[[Sequence[str]], Mapping[str, AccessData]]
"""Lineages → their access data. A lineage that is missing was never read."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the ranking."""

    alpha: float = 0.5
    """1 = meaning alone, 0 = words alone."""
    faded_weight: float = 0.5
    """What a memory that has faded wholly still counts, beside an equal fresh one. 1 = fading changes nothing. Old evidence is
    never faded away: an import of a long chat stays recallable."""
    doubles: bool = False
    """Show near-equal texts each on its own."""
    weights: Mapping[str, float] = field(default_factory=lambda: recall_weights.ALL)


def recall(
    reader: Reader,
    query: str,
    query_vector: Vector | None,
    *,
    k: int = 5,
    layers: Sequence[str] | None = None,
    filter: object = None,
    max_tokens: int | None = None,
    min_relevance: float | None = None,
    explain: bool = False,
    now: int | None = None,
    settings: LayerRules | None = None,
    access: AccessOf | None = None,
    tuning: Tuning = Tuning(),
) -> list[RecallHit]:
    """The k memories that answer `query` best, best first, cut to `max_tokens`.

    query_vector: the embedded question, or None (words alone). layers, filter: narrow what is ranked. now: the moment of asking,
    microseconds (the reader's moment if left out): ages and words like "last week" count from it. settings: layer weights and
    fading (none: all count the same). access: accesses, last access and pins. min_relevance: leave out hits whose `relevance` is
    smaller. explain: fill `parts`.

    Source of the method: scaled sum of both arms with windows and sessions (cf. Bruch et al., An Analysis of Fusion Functions for
    Hybrid Retrieval, TOIS 2023); weights and their data in `recall_weights`.
    """
    _check(query, k, max_tokens)
    ask = _Ask(
        reader=reader,
        vector=query_vector,
        cues=question_cues.read(query, now=reader.now if now is None else now),
        query=query,
        tree=_narrowed(filter, layers),
        now=reader.now if now is None else now,
        tuning=tuning,
    )
    chosen = _take(_blocks(ask, settings, access), k=k, min_relevance=min_relevance, doubles=tuning.doubles)
    return [
        _hit(*chosen[piece.index], text=piece.text, truncated=piece.truncated, explain=explain)
        for piece in fit([_text(one.row) for one, _ in chosen], max_tokens)
    ]


@dataclass(frozen=True, slots=True)
class _Ask:
    reader: Reader
    vector: Vector | None
    cues: Cues
    query: str
    tree: trees.Tree | None
    now: int
    tuning: Tuning


@dataclass(frozen=True, slots=True)
class _Ranked:
    row: Row
    score: float
    relevance: float
    parts: Mapping[str, float]
    pinned: bool


def _check(query: str, k: int, max_tokens: int | None) -> None:
    if not isinstance(query, str) or not query.strip():
        raise InvalidArgumentError(f"query is {query!r}", hint="give the question in words")
    if len(query) > MAX_QUERY_CHARS:
        raise LimitExceededError(
            f"query has {len(query)} characters, the limit is {MAX_QUERY_CHARS}", limit="MAX_QUERY_CHARS"
        )
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidArgumentError(f"k is {k!r}", hint="how many memories to recall, 1 or more")
    if k > MAX_K:
        raise LimitExceededError(f"k is {k}, the limit is {MAX_K}", hint="scan pages through all", limit="MAX_K")
    if max_tokens is not None and (isinstance(max_tokens, bool) or max_tokens < 1):
        raise InvalidArgumentError(f"max_tokens is {max_tokens!r}", hint="1 or more, or None for no budget")


def _narrowed(filter: object, layers: Sequence[str] | None) -> trees.Tree | None:
    return trees.every([trees.tree_of(filter), None if layers is None else trees.one_of("layer", layers)])


def _first_block(ask: _Ask, settings: LayerRules | None, access: AccessOf | None) -> list[_Ranked]:
    """The pool, ranked by all parts."""
    arms = _arms(ask, POOL)
    rows = _pool(ask, arms)
    if not rows:
        return []
    ids = [row.id for row in rows]
    speakers = [_payload(row).get("speaker") for row in rows]
    named = question_cues.named(ask.query, [s for s in speakers if s])
    terms = question_cues.without_names(ask.cues.terms, named)
    pool = signals.Pool(
        texts=[_text(row) for row in rows],
        speakers=speakers,
        roles=[_payload(row).get("role") for row in rows],
        captions=[_payload(row).get("caption") for row in rows],
        at=[_payload(row).get("at") for row in rows],
        seqs=[_payload(row).get("seq") for row in rows],
        layout=Layout(
            [_payload(row).get("session") for row in rows],
            [_payload(row).get("seq") for row in rows],
            reach=REACH,
        ),
        meaning=None if ask.vector is None else _known(ask.reader.dense_scores(ask.vector, ids)),
        words=_word_scores(ask.reader, terms, ids),
    )
    parts = _weighted(ask, signals.rough(pool, ask.cues, named), pool)
    score = total(parts, pool.size)
    short = _best(score, ids, SHORT_LIST)
    fine = _weighted(ask, signals.fine(pool, ask.cues, named, short), pool)
    parts |= {name: _placed(part, short, pool.size) for name, part in fine.items()}
    score = total(parts, pool.size)
    best = _best(score, ids, SHORT_LIST)
    echo = signals.echo_words(pool, best[: signals.ECHO_ROWS].tolist(), short.tolist(), ask.cues, named)
    if echo:
        found = np.nan_to_num(ask.reader.text_scores(" ".join(echo), [ids[i] for i in short]).astype(np.float64))
        if found.max() > 0:
            heard = _weighted(ask, {"echo": found / found.max()}, pool)
            parts |= {name: _placed(part, short, pool.size) for name, part in heard.items()}
    kept, pinned = _with_fading(ask, rows, parts, settings, access)
    score = total(parts, pool.size)
    relevance = _relevance(pool)
    return [
        _Ranked(
            rows[i],
            float(score[i]),
            float(relevance[i]),
            {name: float(part[i]) for name, part in parts.items() if part[i]},
            bool(pinned[i]),
        )
        for i in _best(score, ids, pool.size)
        if kept[i]
    ]


def _arms(ask: _Ask, size: int) -> list[list[str]]:
    """Ids that each arm finds, best first."""
    out: list[list[str]] = []
    if ask.vector is not None:
        out.append([hit.id for hit in ask.reader.search(ask.vector, k=size, filter=ask.tree)])
    words = [form for term in ask.cues.terms for form in (term, *forms(term))]
    if words:
        out.append([hit.id for hit in ask.reader.search(text=" ".join(words), k=size, filter=ask.tree)])
    return out


def _pool(ask: _Ask, arms: Sequence[Sequence[str]]) -> list[Row]:
    """The candidates of both arms, and the neighbours of the best of them."""
    ids = list(dict.fromkeys(itertools.chain.from_iterable(arms)))
    rows = {row.id: row for row in ask.reader.get(ids) if row is not None}
    places = {place for row in rows.values() if (place := _place(row)) is not None}
    wanted: dict[str, set[int]] = {}
    for arm in arms:
        for name in arm[:NEAR_BEST]:
            place = _place(rows[name]) if name in rows else None
            if place is not None:
                session, seq = place
                near = {seq + step for step in range(-REACH, REACH + 1) if seq + step >= 0}
                wanted.setdefault(session, set()).update(n for n in near if (session, n) not in places)
    for row in _beside(ask, wanted):
        rows.setdefault(row.id, row)
    return [rows[name] for name in sorted(rows)]


def _beside(ask: _Ask, wanted: Mapping[str, set[int]]) -> list[Row]:
    """Rows at the given places of the given sessions. A row that the filter keeps out is not among them."""
    places = [
        trees.one_of("session", [session]) & trees.one_of("seq", sorted(seqs))
        for session, seqs in sorted(wanted.items())
        if seqs
    ]
    if not places:
        return []
    while len(places) > 1:  # a balanced tree: its depth stays small
        places = [
            either | places[i + 1] if i + 1 < len(places) else either for i, either in enumerate(places) if i % 2 == 0
        ]
    tree = trees.every([places[0], ask.tree])
    most = sum(len(seqs) for seqs in wanted.values())
    return list(ask.reader.scan(filter=tree, limit=VERSIONS_BESIDE * most).rows)


def _place(row: Row) -> tuple[str, int] | None:
    payload = _payload(row)
    session, seq = payload.get("session"), payload.get("seq")
    return (session, seq) if isinstance(session, str) and isinstance(seq, int) else None


def _word_scores(reader: Reader, terms: Sequence[str], ids: Sequence[str]) -> Scores:
    """(terms, rows): what each word of the question, in any of its forms or by a word used for the same, scores in each row."""
    out = np.zeros((len(terms), len(ids)))
    for i, term in enumerate(terms):
        out[i] = _known(reader.text_scores(" ".join((term, *forms(term))), ids))
        others = kin(term)
        if others:
            out[i] = np.maximum(out[i], KIN_SHARE * _known(reader.text_scores(" ".join(others), ids)))
    return out


def _weighted(ask: _Ask, parts: signals.Parts, pool: signals.Pool) -> signals.Parts:
    """Parts times their weights, and the arms balanced: one that found nothing passes its weight to the other."""
    for_vector, for_text = balance(
        ask.tuning.alpha,
        vector_found=pool.meaning is not None and bool(np.ptp(pool.meaning) > 0),
        text_found=bool(pool.words.any()),
    )
    out = fuse(parts, ask.tuning.weights)
    for name in out:
        if name in recall_weights.MEANING:
            out[name] = for_vector * out[name]
        elif name in recall_weights.WORDS:
            out[name] = for_text * out[name]
    return out


def _with_fading(
    ask: _Ask,
    rows: Sequence[Row],
    parts: signals.Parts,
    settings: LayerRules | None,
    access: AccessOf | None,
) -> tuple[list[bool], list[bool]]:
    """Adds what layer and age do to the rank; returns which rows stay and which are pinned.

    Parts are log odds, so a factor on the odds is added as its logarithm: `layer` = ln(weight of the layer), `fading` = ln of
    faded_weight + (1 - faded_weight) x decay. A layer of weight 0 is left out. Pinned rows do not fade.
    """
    lineages = [row.id.rsplit(".", 1)[0] for row in rows]
    known = {} if access is None else access(list(dict.fromkeys(lineages)))
    kept, pinned = [True] * len(rows), [False] * len(rows)
    layer_part, fading_part = np.zeros(len(rows)), np.zeros(len(rows))
    for i, row in enumerate(rows):
        payload = _payload(row)
        rule = None if settings is None else settings.layer(payload.get("layer", ""))
        use = known.get(lineages[i])
        told = use.pinned if use is not None and use.pinned is not None else payload.get("pinned")
        pinned[i] = bool(told) if told is not None else rule is not None and rule.pinned
        if rule is None:
            continue
        if rule.weight <= 0:
            kept[i] = False
            continue
        layer_part[i] = math.log(rule.weight)
        if not pinned[i] and rule.half_life_s is not None:
            fading_part[i] = math.log(_fading(ask, row, rule, use))
    parts |= {"layer": layer_part, "fading": fading_part}
    return kept, pinned


def _fading(ask: _Ask, row: Row, rule: LayerRule, use: AccessData | None) -> float:
    """Between `faded_weight` and 1. Age counts from the last access, else from when it was said, else from when it was recorded;
    a moment in the future counts as now."""
    since = use.last_us if use is not None and use.last_us is not None else None
    if since is None:
        said = _payload(row).get("at")
        since = said if isinstance(said, int) else row.tx_from
    age_s = max(0.0, (ask.now - since) / SECOND_US)
    models = importlib.import_module("kektordb.decay")
    half_life_s = math.inf if rule.half_life_s is None else rule.half_life_s
    factor: float = getattr(models, rule.decay)(age_s, 0 if use is None else use.accesses, half_life_s)
    factor = min(max(factor, 0.0), 1.0) if math.isfinite(factor) else 1.0
    least = max(ask.tuning.faded_weight, 1e-6)
    return least + (1.0 - least) * factor


def _relevance(pool: signals.Pool) -> Scores:
    """The larger of the cosine and the share of the question's words that the row holds, 0 to 1. A word that the pool does not
    know counts like its commonest known word."""
    reachable = pool.words.max(axis=1, initial=0.0)
    known = reachable[reachable > 0]
    out = np.zeros(pool.size)
    if known.size:
        whole = np.where(reachable > 0, reachable, known.min())
        out = ((pool.words > 0) * whole[:, None]).sum(axis=0) / whole.sum()
    if pool.meaning is not None:
        out = np.maximum(out, np.clip(pool.meaning, 0.0, 1.0))
    return out


def _take(
    blocks: Iterable[Sequence[_Ranked]], *, k: int, min_relevance: float | None, doubles: bool
) -> list[tuple[_Ranked, tuple[str, ...]]]:
    """The k best that are neither doubles nor too far off, each with the ids it stands for.

    Doubles are looked for in the first SHORT_LIST rows at least, so that what a hit stands for does not depend on k.
    """
    seen = Doubles()
    kept: dict[int, _Ranked] = {}
    also: dict[int, list[str]] = {}
    place = 0
    for block in blocks:
        for one in block:
            if len(kept) >= k and place >= SHORT_LIST:
                break
            if min_relevance is not None and one.relevance < min_relevance:
                continue
            like = None if doubles else seen.first_like(place, _text(one.row), apart=_source(one.row))
            if like is None:
                kept[place], also[place] = one, []
            else:
                also[like].append(one.row.id)
            place += 1
        if len(kept) >= k:
            break
    return [(one, tuple(also[i])) for i, one in itertools.islice(kept.items(), k)]


def _blocks(ask: _Ask, settings: LayerRules | None, access: AccessOf | None) -> Iterator[list[_Ranked]]:
    """The pool by all parts; then, while more is wanted, what the arms find beyond it, by plain fusion and below it."""
    block = _first_block(ask, settings, access)
    seen: set[str] = set()
    size = POOL
    least = 0.0
    while True:
        yield block
        seen.update(one.row.id for one in block)
        least = min((one.score for one in block), default=least)
        size *= POOL_GROWTH
        if size > MAX_POOL:
            return
        found = set(itertools.chain.from_iterable(_arms(ask, size)))
        block = _further_block(ask, sorted(found - seen), settings, access, least=least)
        if not block and len(found) < size:
            return


def _further_block(
    ask: _Ask, ids: Sequence[str], settings: LayerRules | None, access: AccessOf | None, *, least: float
) -> list[_Ranked]:
    rows = [row for row in ask.reader.get(ids) if row is not None] if ids else []
    if not rows:
        return []
    ids = [row.id for row in rows]
    words = _word_scores(ask.reader, ask.cues.terms, ids).sum(axis=0)
    meaning = np.zeros(len(ids)) if ask.vector is None else _known(ask.reader.dense_scores(ask.vector, ids))
    parts: signals.Parts = {"beyond_pool": least - 2.0 + hybrid(meaning, words, alpha=ask.tuning.alpha)}
    kept, pinned = _with_fading(ask, rows, dict[str, Scores](), settings, access)
    score = parts["beyond_pool"]
    return [
        _Ranked(rows[i], float(score[i]), float(np.clip(meaning[i], 0, 1)), {"beyond_pool": float(score[i])}, pinned[i])
        for i in _best(score, ids, len(ids))
        if kept[i]
    ]


def _hit(one: _Ranked, also: tuple[str, ...], *, text: str, truncated: bool, explain: bool) -> RecallHit:
    payload = _payload(one.row)
    slot = payload.get("slot")
    return RecallHit(
        id=one.row.id,
        text=text,
        score=one.score,
        relevance=one.relevance,
        layer=payload.get("layer", ""),
        speaker=payload.get("speaker"),
        role=payload.get("role"),
        at=payload.get("at"),
        session=payload.get("session"),
        seq=payload.get("seq"),
        caption=payload.get("caption"),
        source=payload.get("source"),
        tags=tuple(payload.get("tags") or ()),
        slot=None if slot is None else tuple(slot),
        pinned=one.pinned,
        tokens=estimate_tokens(text),
        truncated=truncated,
        also=also,
        parts=dict(one.parts) if explain else {},
    )


def _source(row: Row) -> tuple[str | None, date | None]:
    """Who said it, on which day: the same words of another speaker or another day are another memory."""
    payload = _payload(row)
    at = payload.get("at")
    return payload.get("speaker"), day_of(at) if isinstance(at, int) else None


def _payload(row: Row) -> Mapping[str, Json]:
    return row.payload or {}


def _text(row: Row) -> str:
    text: str = _payload(row).get("text", "")
    return text


def _known(values: Vector) -> Scores:
    return np.nan_to_num(values.astype(np.float64))


def _best(score: Scores, ids: Sequence[str], most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Places of the best scores, best first, equal ones in id order."""
    order = sorted(range(len(ids)), key=lambda i: (-score[i], ids[i]))
    return np.array(order[:most], dtype=np.int64)


def _placed(part: Scores, rows: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> Scores:
    out = np.zeros(size)
    out[rows] = part
    return out
