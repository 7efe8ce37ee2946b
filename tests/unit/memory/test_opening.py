"""Opening by name."""

from __future__ import annotations

import pytest

from kektordb.errors import EmbedderMismatchError, InvalidArgumentError
from kektordb.memory import open_memory
from kektordb.model.view import Principal
from kektordb.testing import FakeClock, NaiveStore


def test_a_memory_is_opened_by_names_and_opened_again(store: NaiveStore, clock: FakeClock) -> None:
    first = open_memory(store, "notes", principal=Principal(user="ann"), embedder="fake", clock=clock)
    saved = first.save("likes tea")
    again = open_memory(store, "notes", principal=Principal(user="ann"), embedder="fake", clock=clock)
    assert again.get(saved.id) == saved
    assert again.name == "notes"
    assert again.principal.user == "ann"
    assert open_memory(store, "other", embedder="fake", clock=clock).count() == 0
    with pytest.raises(EmbedderMismatchError):
        open_memory(store, "notes", embedder="fake:64", clock=clock)
    with pytest.raises(InvalidArgumentError, match="nonsense"):
        open_memory(store, "notes", embedder="nonsense", clock=clock)


def test_without_a_principal_one_reads_what_is_open_to_all(store: NaiveStore, clock: FakeClock) -> None:
    nobody = open_memory(store, embedder="fake", clock=clock)
    nobody.save("for all")
    open_memory(store, embedder="fake", principal=Principal(user="ann"), clock=clock).save("ann's")
    assert [m.text for m in nobody.scan().memories] == ["for all"]
