"""Settings: keyword arguments over the environment over a file over defaults; every value knows where it came from."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from sys import platform as _platform
from typing import Any

from kektordb.errors import InvalidArgumentError, UnknownSettingError


@dataclass(frozen=True, slots=True)
class LogSettings:
    sync_interval_ms: int = 100
    """Longest time that a buffered write stays unsynced."""
    segment_bytes: int = 64 << 20
    checkpoint_bytes: int = 256 << 20
    """A checkpoint is made when the log has grown by this."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    ef_search: int = 64


@dataclass(frozen=True, slots=True)
class IndexSettings:
    tail_rows_max: int = 8192
    """Rows that may wait for linking before writers help."""
    link_threads: int = 0
    """0 = all cores."""


@dataclass(frozen=True, slots=True)
class OpenSettings:
    verify_bytes: int = 64 << 20
    """Contents of files up to this total are checked at opening; `kektordb verify` checks all."""


platform: str = _platform

GROUPS: Mapping[str, type] = {
    "log": LogSettings,
    "search": SearchSettings,
    "index": IndexSettings,
    "open": OpenSettings,
}
MINIMUM: Mapping[str, int] = {
    "log.sync_interval_ms": 1,
    "log.segment_bytes": 64 << 10,
    "log.checkpoint_bytes": 1 << 20,
    "search.ef_search": 1,
    "index.tail_rows_max": 1,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a database. `Settings.load()` reads the environment and the file; `Settings()` is the defaults."""

    log: LogSettings = field(default_factory=LogSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    open: OpenSettings = field(default_factory=OpenSettings)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Setting (`group.name`) → where its value came from; a default is not listed."""

    @classmethod
    def load(cls, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
        """overrides > environment (KEKTORDB_LOG_SYNC_INTERVAL_MS) > file (KEKTORDB_CONFIG, or config.toml of the user's
        configuration folder) > defaults. UnknownSettingError names what is near; InvalidArgumentError what is wanted."""
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for origin, layer in (*_file_layers(), ("environment", _environment()), ("argument", overrides or {})):
            for name, value in _flat(layer, origin):
                values[name] = _checked(name, value, origin)
                origins[name] = origin
        groups = {
            group: kind(**{n.split(".")[1]: v for n, v in values.items() if n.startswith(f"{group}.")})
            for group, kind in GROUPS.items()
        }
        return cls(**groups, origins=origins)

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """(setting, value, origin), in order."""
        for name in names():
            group, key = name.split(".")
            yield name, getattr(getattr(self, group), key), self.origins.get(name, "default")


def names() -> list[str]:
    return [f"{group}.{f.name}" for group, kind in GROUPS.items() for f in fields(kind)]


def default_db_path() -> Path:
    """KEKTORDB_PATH, or `memory.kdb` in the user's data folder."""
    if named := os.environ.get("KEKTORDB_PATH"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("kektordb", appauthor=False)) / "memory.kdb"


def _file_layers() -> list[tuple[str, Mapping[str, Any]]]:
    named = os.environ.get("KEKTORDB_CONFIG")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise InvalidArgumentError(f"KEKTORDB_CONFIG names {path}, which is no file")
    else:
        path = _user_config()
        if not path.is_file():
            return []
    import tomllib

    try:
        with path.open("rb") as f:
            return [(str(path), tomllib.load(f))]
    except tomllib.TOMLDecodeError as e:
        raise InvalidArgumentError(f"{path} is not TOML: {e}") from e


def _user_config() -> Path:
    if platform != "linux":
        import platformdirs

        return Path(platformdirs.user_config_dir("kektordb", appauthor=False)) / "config.toml"
    # By hand: the library that knows every system costs more than all the rest of opening.
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "kektordb" / "config.toml"


def _environment() -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for name in names():
        group, key = name.split(".")
        value = os.environ.get(f"KEKTORDB_{group}_{key}".upper())
        if value is not None:
            out.setdefault(group, {})[key] = value
    return out


def _flat(layer: Mapping[str, Any], origin: str) -> Iterator[tuple[str, Any]]:
    known = names()
    for group, values in layer.items():
        if group in GROUPS and not isinstance(values, Mapping):
            raise InvalidArgumentError(
                f"{origin}: {group} is {values!r}", hint=f"wanted a table of settings, [{group}]"
            )
        for key in values if group in GROUPS else (None,):
            name = f"{group}.{key}" if key is not None else group
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                raise UnknownSettingError(f"{origin}: no setting is called {name!r}", hint=hint)
            yield name, values[key]


def _checked(name: str, value: Any, origin: str) -> int:
    low = MINIMUM.get(name, 0)
    try:
        if isinstance(value, (bool, float)):
            raise ValueError
        n = int(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{origin}: {name} is {value!r}", hint="give a whole number") from None
    if n < low:
        raise InvalidArgumentError(f"{origin}: {name} is {n}", hint=f"at least {low}")
    return n
