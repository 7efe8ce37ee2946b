"""Files become turns and passages: plain text, Markdown, JSON Lines, and chats that assistants export.

`read_path` yields `Source` values lazily, one a conversation or document. Nothing here writes; the caller saves.
"""

from __future__ import annotations

from kektordb.ingest.files import Skipped, Source, read_path

__all__ = ["Skipped", "Source", "read_path"]
