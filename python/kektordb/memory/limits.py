"""Every bound of the memory, by name. An error that meets one names it."""

from __future__ import annotations

from typing import Final

MAX_NAME_CHARS: Final = 48
"""Name of a memory: its collection's name is longer and must stay within the engine's bound."""
MAX_TEXT_BYTES: Final = 1 << 20
"""One memory, UTF-8. A longer document is cut by its reader (`kektordb ingest`), not here."""
MAX_TAGS: Final = 64
MAX_LABEL_BYTES: Final = 1_024
"""A tag, layer, speaker, session, slot part or source, UTF-8."""
MAX_REASON_BYTES: Final = 4_096
MAX_PARENTS: Final = 1_024
MAX_TWINS: Final = 32
"""Lineages of equal words (true at different times) among which an exact duplicate is looked for, the latest first."""
MAX_VERSIONS: Final = 1_000_000
"""Versions of one lineage."""
MAX_CASCADE: Final = 100_000
"""Descendants that one retraction may mark."""
TURNS_PER_RECORD: Final = 2_048
"""Turns in one log record of a long chat."""
CLOSES_PER_RECORD: Final = 4_096
ACCESS_FLUSH_ENTRIES: Final = 256
"""Lineages with unsaved access counts before they are flushed."""
ACCESS_FLUSH_AFTER_US: Final = 30_000_000
PAGE_ROWS: Final = 1_000
"""Rows asked for at once where all are walked."""
