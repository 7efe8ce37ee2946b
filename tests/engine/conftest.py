"""What the engine's tests share: an open database and a small collection with text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kektordb
from kektordb.engine.collection import Collection


@pytest.fixture
def db(tmp_path: Path) -> Iterator[kektordb.Database]:
    with kektordb.open(tmp_path / "a.kdb") as opened:
        yield opened


@pytest.fixture
def docs(db: kektordb.Database) -> Collection:
    """Three rows, four dimensions, cosine."""
    made = db.create_collection("docs", dim=4, text_fields=["body"])
    rows = np.eye(4, dtype=np.float32)[:3]
    made.upsert(["a", "b", "c"], rows, [{"n": i, "body": f"word{i} common"} for i in range(3)])
    return made


@pytest.fixture
def ones() -> NDArray[np.float32]:
    return np.ones((1, 4), np.float32)
