"""The whole tree of errors.

Every error has a stable ``code`` (snake case, what programs compare), a message (what was got and what was wanted),
a ``context`` of plain values and a ``hint`` (how to fix it; may be empty).
"""

from __future__ import annotations

from typing import ClassVar


class KektorError(Exception):
    """Root of all errors that this package raises on purpose."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "", **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidArgumentError(KektorError, ValueError):
    """An argument is wrong; nothing was done."""

    code = "invalid_argument"


class DimensionMismatchError(InvalidArgumentError):
    code = "dimension_mismatch"


class DtypeError(InvalidArgumentError, TypeError):
    code = "dtype"


class FilterSyntaxError(InvalidArgumentError):
    """A filter text cannot be parsed; ``position`` is the character it happened at, from 0."""

    code = "filter_syntax"

    def __init__(self, message: str, *, position: int, hint: str = "", **context: object) -> None:
        super().__init__(message, hint=hint, position=position, **context)
        self.position = position


class LimitExceededError(InvalidArgumentError):
    """A named bound was passed; ``limit`` in the context is its name."""

    code = "limit_exceeded"


class UnknownSettingError(InvalidArgumentError):
    code = "unknown_setting"


class NotFoundError(KektorError, LookupError):
    """Absent, or hidden from this reader: the two are told apart by nothing."""

    code = "not_found"


class ConflictError(KektorError):
    """The state of the store does not allow the change."""

    code = "conflict"


class AlreadyExistsError(ConflictError):
    code = "already_exists"


class VersionConflictError(ConflictError):
    """An expected version was not the one in force."""

    code = "version_conflict"


class TransitionError(ConflictError):
    """The lifecycle table has no such step."""

    code = "transition"


class TombstonedError(ConflictError):
    """What was to be saved had been refuted, rejected or erased before."""

    code = "tombstoned"


class EmbedderMismatchError(ConflictError):
    """The collection was filled by another embedder."""

    code = "embedder_mismatch"


class PermissionDeniedError(KektorError):
    code = "permission_denied"


class StorageError(KektorError, OSError):
    """The disk or the files; nothing acknowledged is lost by it."""

    code = "storage"


class CorruptionError(StorageError):
    """Bytes on disk are not what was written; context: file, offset."""

    code = "corruption"


class LockedError(StorageError):
    """Another process (or another handle) holds the store; context: holder."""

    code = "locked"


class PoisonedError(StorageError):
    """An earlier write or sync failed; reopening recovers."""

    code = "poisoned"


class FormatVersionError(StorageError):
    code = "format_version"


class OutOfSpaceError(StorageError):
    code = "out_of_space"


class ProviderError(KektorError):
    """An embedder or a model failed."""

    code = "provider"


class EmbeddingError(ProviderError):
    code = "embedding"


class LlmError(ProviderError):
    code = "llm"


class ProviderTimeoutError(ProviderError, TimeoutError):
    code = "provider_timeout"


class ClosedError(KektorError):
    code = "closed"


class InternalError(KektorError):
    """A fault of ours; please report it."""

    code = "internal"
