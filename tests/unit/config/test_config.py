from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kektordb.config import GROUPS, IndexSettings, LogSettings, Settings, default_db_path, names, variable
from kektordb.errors import InvalidArgumentError, UnknownSettingError


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No variable and no file of the person who runs the tests; returns the configuration folder."""
    import os

    for key in list(os.environ):
        if key.startswith(("KEKTORDB_PATH", "KEKTORDB_CONFIG", *(f"KEKTORDB_{g.upper()}_" for g in GROUPS))):
            monkeypatch.delenv(key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("kektordb.config.platform", "linux")
    return tmp_path / "config" / "kektordb"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_anything_the_defaults_hold() -> None:
    assert Settings.load() == Settings()
    assert {origin for _, _, origin in Settings.load().rows()} == {"default"}


def test_arguments_beat_the_environment_which_beats_the_file(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(
        bare / "config.toml",
        "[log]\nsync_interval_ms = 1\nsegment_bytes = 1_000_000\n[search]\nef_search = 1\n[index]\nlink_threads = 1\n",
    )
    monkeypatch.setenv("KEKTORDB_LOG_SYNC_INTERVAL_MS", "2")
    monkeypatch.setenv("KEKTORDB_SEARCH_EF_SEARCH", " 2 ")
    got = Settings.load({"index": {"tail_rows_max": 3}}, search={"ef_search": 3})
    assert got.search.ef_search == 3
    assert got.log.sync_interval_ms == 2
    assert got.log.segment_bytes == 1_000_000
    assert got.log.checkpoint_bytes == LogSettings().checkpoint_bytes
    assert got.index == IndexSettings(tail_rows_max=3, link_threads=1)
    assert {name: origin for name, _, origin in got.rows() if origin != "default"} == {
        "log.sync_interval_ms": "KEKTORDB_LOG_SYNC_INTERVAL_MS",
        "log.segment_bytes": str(file),
        "search.ef_search": "argument",
        "index.tail_rows_max": "argument",
        "index.link_threads": str(file),
    }
    assert got.origin("log.checkpoint_bytes") == "default"


def test_a_whole_group_may_be_given() -> None:
    got = Settings.load(log=LogSettings(sync_interval_ms=7))
    assert got.log.sync_interval_ms == 7
    assert got.origin("log.segment_bytes") == "argument"


def test_the_variable_names_the_file(tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bare / "config.toml", "[search]\nef_search = 5\n")
    other = write(tmp_path / "other.toml", "search.ef_search = 6\n")
    monkeypatch.setenv("KEKTORDB_CONFIG", str(other))
    assert Settings.load().search.ef_search == 6
    monkeypatch.setenv("KEKTORDB_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(InvalidArgumentError, match=r"none\.toml"):
        Settings.load()
    monkeypatch.setenv("KEKTORDB_CONFIG", "")
    assert Settings.load().search.ef_search == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[search]\nef_serach = 5\n", "search.ef_search"),
        ("[serach]\nef_search = 5\n", "search.ef_search"),
        ("[logs]\n", "known:"),
        ("ef_search = 5\n", "search.ef_search"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_near_one(bare: Path, text: str, says: str) -> None:
    file = write(bare / "config.toml", text)
    with pytest.raises(UnknownSettingError) as raised:
        Settings.load()
    assert says in str(raised.value)
    assert str(file) in str(raised.value)


def test_a_misspelt_variable_is_refused_and_a_foreign_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEKTORDB_MODEL_DIR", "/models")
    monkeypatch.setenv("KEKTORDB_LOG_SEGMENT_BYTES", "")
    assert Settings.load() == Settings()
    monkeypatch.setenv("KEKTORDB_LOG_SYNC_INTERVALL_MS", "5")
    with pytest.raises(UnknownSettingError, match="KEKTORDB_LOG_SYNC_INTERVAL_MS"):
        Settings.load()


@pytest.mark.parametrize("value", ["0", "-1", "1e3", "many", "1.5", "9" * 25, "true"])
def test_a_wrong_value_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("KEKTORDB_SEARCH_EF_SEARCH", value)
    with pytest.raises(InvalidArgumentError) as raised:
        Settings.load()
    assert "KEKTORDB_SEARCH_EF_SEARCH" in str(raised.value) and "search.ef_search" in str(raised.value)


@pytest.mark.parametrize("value", ["true", "1.5", "'x'", "[1]", "0"])
def test_a_wrong_value_in_the_file_is_refused_with_its_place(bare: Path, value: str) -> None:
    file = write(bare / "config.toml", f"search.ef_search = {value}\n")
    with pytest.raises(InvalidArgumentError) as raised:
        Settings.load()
    assert str(file) in str(raised.value) and "search.ef_search" in str(raised.value)


@pytest.mark.parametrize("data", [b"[search\n", b"\xff\xfe", b"search = 5\n"])
def test_a_damaged_file_is_refused_by_name(bare: Path, data: bytes) -> None:
    bare.mkdir(parents=True)
    (bare / "config.toml").write_bytes(data)
    with pytest.raises(InvalidArgumentError, match=r"config\.toml"):
        Settings.load()


def test_bounds_hold_for_groups_made_by_hand_too() -> None:
    for group, kind in GROUPS.items():
        for f in kind.__dataclass_fields__.values():  # type: ignore[attr-defined]
            low, high = f.metadata["at_least"], f.metadata["at_most"]
            assert low <= f.default <= high
            for value in (low, high):
                kind(**{f.name: value})
            for value in (low - 1, high + 1, True, 1.0, "5", None):
                with pytest.raises(InvalidArgumentError, match=f"{group}.{f.name}"):
                    kind(**{f.name: value})


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(UnknownSettingError, match="search"):
        Settings.load(serach={"ef_search": 5})
    with pytest.raises(InvalidArgumentError, match="table"):
        Settings.load(search=5)  # type: ignore[arg-type]
    with pytest.raises(UnknownSettingError):
        Settings().origin("search.ef")


def test_every_setting_has_its_own_variable() -> None:
    assert len({variable(name) for name in names()}) == len(names())


def test_the_database_lies_where_the_variable_says_or_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform == "linux":
        assert default_db_path() == tmp_path / "data" / "kektordb" / "memory.kdb"
    assert default_db_path().name == "memory.kdb"
    monkeypatch.setenv("KEKTORDB_PATH", "~/x.kdb")
    assert default_db_path() == Path.home() / "x.kdb"


def test_importing_and_loading_reads_no_library_of_folders() -> None:
    code = (
        "import sys, kektordb.config as c; assert 'tomllib' not in sys.modules; "
        "c.Settings.load(); print('platformdirs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sys.platform != "linux")
