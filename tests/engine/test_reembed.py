"""A memory moves to another embedder: every record, in whatever state, and also when the run is cut in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

import kektordb
from kektordb.embed.fake import HashEmbedder
from kektordb.errors import EmbedderMismatchError
from kektordb.memory import reembed


def fill(path: Path, embedder: HashEmbedder) -> tuple[str, str]:
    with kektordb.open(path) as db, db.memory(embedder=embedder) as mem:
        for i in range(30):
            mem.save(f"fact number {i} about topic{i % 5}")
        old = mem.save("the sky is green")
        new = mem.evolve(old.id, "the sky is blue")
        mem.retract(mem.save("the moon is cheese").id, reason="never true")
        return old.id, new.id


def test_every_record_is_embedded_anew_and_every_view_works_after(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "m.kdb", HashEmbedder(64))
    with kektordb.open(tmp_path / "m.kdb") as db:
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            db.memory(embedder=HashEmbedder(96))
        seen: list[tuple[int, int]] = []
        report = reembed(db.store, "memory", HashEmbedder(96), batch=7, progress=lambda *p: seen.append(p))
        assert report.records["active"] == 31
        assert report.records["superseded"] == 1
        assert report.records["retracted"] == 1
        assert seen[-1][0] == seen[-1][1] == report.total
    with kektordb.open(tmp_path / "m.kdb") as db, db.memory(embedder=HashEmbedder(96)) as mem:
        assert [h.memory.id for h in mem.recall("sky blue", k=1)] == [new]
        past = mem.recall("sky green", k=40, include=("superseded",))
        assert old in [h.memory.id for h in past]
        assert old not in [h.memory.id for h in mem.recall("sky green", k=40)]
        assert mem.evolve(new, "the sky is grey").version == 3
        with pytest.raises(EmbedderMismatchError):
            db.memory(embedder=HashEmbedder(64))


def test_a_cut_run_goes_on_where_it_stopped_and_changes_nothing_before(tmp_path: Path) -> None:
    fill(tmp_path / "m.kdb", HashEmbedder(64))

    def cut(done: int, total: int) -> None:
        if done >= 15:
            raise RuntimeError("power")

    with kektordb.open(tmp_path / "m.kdb") as db:
        with pytest.raises(RuntimeError, match="power"):
            reembed(db.store, "memory", HashEmbedder(96), batch=5, progress=cut)
        assert db.memory(embedder=HashEmbedder(64)).recall("sky blue", k=1)[0].text == "the sky is blue"
    with kektordb.open(tmp_path / "m.kdb") as db:
        first: list[int] = []
        reembed(db.store, "memory", HashEmbedder(96), batch=5, progress=lambda done, total: first.append(done))
        assert first[0] == 20, "15 were staged before the cut"
        assert db.memory(embedder=HashEmbedder(96)).recall("sky blue", k=1)[0].text == "the sky is blue"
