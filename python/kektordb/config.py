"""Settings: keyword arguments over environment variables over a TOML file over defaults; every value knows where it came from.

A setting is `group.name`, with its unit last. In the environment it is `KEKTORDB_GROUP_NAME`, in the file `name` under `[group]`.
The file is what KEKTORDB_CONFIG names, else `config.toml` in the user's configuration folder. Nothing is read at import.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from sys import platform as _platform
from typing import Any, Final, cast

from kektordb.errors import InvalidArgumentError, UnknownSettingError

platform: str = _platform


def _whole(default: int, *, at_least: int, at_most: int) -> int:
    """A whole number with its bounds, both included."""
    made: int = field(default=default, metadata={"at_least": at_least, "at_most": at_most})
    return made


class _Group:
    """Settings that belong together; each value is checked when the group is made, wherever it came from."""

    __slots__ = ()

    def __post_init__(self) -> None:
        group = _NAMES[type(self)]
        for f in fields(cast(Any, self)):
            low, high = f.metadata["at_least"], f.metadata["at_most"]
            value = getattr(self, f.name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidArgumentError(
                    f"{group}.{f.name} is {value!r}", hint=f"give a whole number from {low:,} to {high:,}"
                )
            if not low <= value <= high:
                raise InvalidArgumentError(f"{group}.{f.name} is {value:,}", hint=f"from {low:,} to {high:,}")


@dataclass(frozen=True, slots=True)
class LogSettings(_Group):
    sync_interval_ms: int = _whole(100, at_least=1, at_most=3_600_000)
    """Longest time that a buffered write stays unsynced."""
    segment_bytes: int = _whole(64 << 20, at_least=64 << 10, at_most=1 << 40)
    """A log file of this size is followed by the next one."""
    checkpoint_bytes: int = _whole(256 << 20, at_least=1 << 20, at_most=1 << 50)
    """A checkpoint is made when the log has grown by this."""


@dataclass(frozen=True, slots=True)
class SearchSettings(_Group):
    ef_search: int = _whole(64, at_least=1, at_most=1_000_000)
    """Candidates that a graph search keeps when the call names no number."""


@dataclass(frozen=True, slots=True)
class IndexSettings(_Group):
    tail_rows_max: int = _whole(8_192, at_least=1, at_most=1 << 31)
    """Rows that may wait for linking before writers help."""
    link_threads: int = _whole(0, at_least=0, at_most=1_024)
    """0 = all cores."""


@dataclass(frozen=True, slots=True)
class OpenSettings(_Group):
    verify_bytes: int = _whole(64 << 20, at_least=0, at_most=1 << 50)
    """Contents of files up to this total are checked at opening; `kektordb verify` checks all."""


@dataclass(frozen=True, slots=True)
class EmbedderSettings(_Group):
    threads: int = _whole(0, at_least=0, at_most=1_024)
    """Threads of the offline model; 0 = all cores, 4 at most."""


GROUPS: Final[Mapping[str, type[_Group]]] = {
    "log": LogSettings,
    "search": SearchSettings,
    "index": IndexSettings,
    "open": OpenSettings,
    "embed": EmbedderSettings,
}
_NAMES: Final = {kind: group for group, kind in GROUPS.items()}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a database. `Settings.load()` reads the environment and the file; `Settings()` is the defaults."""

    log: LogSettings = field(default_factory=LogSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    open: OpenSettings = field(default_factory=OpenSettings)
    embed: EmbedderSettings = field(default_factory=EmbedderSettings)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Setting (`group.name`) → where its value came from; a default is not listed."""

    @classmethod
    def load(
        cls, overrides: Mapping[str, Mapping[str, Any]] | None = None, **groups: Mapping[str, Any] | _Group
    ) -> Settings:
        """Arguments over environment over file over defaults: `Settings.load(search={"ef_search": 100})`.

        A group may be given as a mapping of some of its settings, or whole (`log=LogSettings(…)`). UnknownSettingError names
        what is near, InvalidArgumentError what is wanted; both say where the setting stands.
        """
        values: dict[str, int] = {}
        origins: dict[str, str] = {}
        arguments = {**(overrides or {}), **{g: _as_mapping(v) for g, v in groups.items()}}
        for layer in (*_file_layer(), *_environment(), *_flat(arguments, "argument")):
            name, value, origin = layer
            values[name] = (
                value if isinstance(value, int) and not isinstance(value, bool) else _number(name, value, origin)
            )
            origins[name] = origin
        made: dict[str, Any] = {}
        for group, kind in GROUPS.items():
            own = {name.split(".")[1]: value for name, value in values.items() if name.startswith(f"{group}.")}
            try:
                made[group] = kind(**own)
            except InvalidArgumentError as e:
                wrong = e.message.split(" ", 1)[0]
                raise InvalidArgumentError(f"{origins[wrong]}: {e.message}", hint=e.hint) from None
        return cls(**made, origins=origins)

    def origin(self, name: str) -> str:
        """Where a setting's value came from: "argument", the variable, the file, or "default"."""
        if name not in names():
            raise _unknown(name, "asked for")
        return self.origins.get(name, "default")

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """(setting, value, origin), in order."""
        for name in names():
            group, key = name.split(".")
            yield name, getattr(getattr(self, group), key), self.origin(name)


def names() -> list[str]:
    """Every setting, `group.name`."""
    return [f"{group}.{f.name}" for group, kind in GROUPS.items() for f in fields(cast(Any, kind))]


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"KEKTORDB_{name.replace('.', '_')}".upper()


def default_db_path() -> Path:
    """KEKTORDB_PATH, or `memory.kdb` in the user's data folder."""
    if named := os.environ.get("KEKTORDB_PATH"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("kektordb", appauthor=False)) / "memory.kdb"


# -- where settings come from

_Found = tuple[str, Any, str]
"""Setting, value, origin."""


def _file_layer() -> list[_Found]:
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
        return list(_flat(tomllib.loads(path.read_text(encoding="utf-8")), str(path)))
    except OSError as e:
        raise InvalidArgumentError(f"{path} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise InvalidArgumentError(f"{path} is not UTF-8: {e.reason} at byte {e.start}") from e
    except tomllib.TOMLDecodeError as e:
        raise InvalidArgumentError(f"{path} is not TOML: {e}") from e


def _user_config() -> Path:
    if platform != "linux":
        import platformdirs

        return Path(platformdirs.user_config_dir("kektordb", appauthor=False)) / "config.toml"
    # By hand: the library that knows every system costs more than all the rest of opening.
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "kektordb" / "config.toml"


def _environment() -> list[_Found]:
    """Variables of settings. One that begins like those of a group and is none is a mistake; an empty one counts as unset."""
    known = {variable(name): name for name in names()}
    prefixes = tuple(f"KEKTORDB_{group.upper()}_" for group in GROUPS)
    out: list[_Found] = []
    for key in sorted(os.environ):
        value = os.environ[key]
        if key in known and value.strip():
            out.append((known[key], value, key))
        elif key.startswith(prefixes) and key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise UnknownSettingError(f"the environment variable {key} is no setting", hint=hint)
    return out


def _as_mapping(group: Mapping[str, Any] | _Group) -> Mapping[str, Any]:
    if isinstance(group, _Group):
        return {f.name: getattr(group, f.name) for f in fields(cast(Any, group))}
    return group


def _flat(layer: Mapping[str, Any], origin: str) -> Iterator[_Found]:
    known = names()
    for group, values in layer.items():
        if group not in GROUPS:
            inner = next(iter(values), None) if isinstance(values, Mapping) else None
            raise _unknown(group if inner is None else f"{group}.{inner}", origin)
        if not isinstance(values, Mapping):
            raise InvalidArgumentError(
                f"{origin}: {group} is {values!r}", hint=f"wanted a table of settings, [{group}]"
            )
        for key, value in values.items():
            if f"{group}.{key}" not in known:
                raise _unknown(f"{group}.{key}", origin)
            yield f"{group}.{key}", value, origin


def _unknown(name: str, origin: str) -> UnknownSettingError:
    known = names()
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or [
        k for k in known if k.endswith(f".{name.rsplit('.', 1)[-1]}")
    ]
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    return UnknownSettingError(f"{origin}: no setting is called {name!r}", hint=hint)


def _number(name: str, value: Any, origin: str) -> int:
    """A whole number that was given as text, as in the environment."""
    text = value.strip() if isinstance(value, str) else ""
    if not (text.isascii() and text.lstrip("+-").isdigit() and len(text) < 30):
        raise InvalidArgumentError(f"{origin}: {name} is {value!r}", hint="give a whole number")
    return int(text)
