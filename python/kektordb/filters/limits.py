"""Every bound of the filter language, by name. An error that meets one names it."""

from __future__ import annotations

from typing import Final

MAX_FILTER_CHARS: Final = 1 << 20
"""A filter's text, and any one string in a built tree."""
MAX_FILTER_NODES: Final = 1_000
"""Conditions, ANDs, ORs and NOTs of one filter."""
MAX_FILTER_NESTING: Final = 32
"""Parentheses and NOTs around one condition, as the filter is written."""
MAX_FILTER_VALUES: Final = 10_000
"""Values in all IN lists of one filter."""
MAX_PATH_SEGMENTS: Final = 64
"""Names in one path; a payload cannot be nested deeper."""
MAX_PATH_BYTES: Final = 4_096
"""A path as the postings know it, UTF-8."""
