"""The only importer of the extension module; `engine` is the only importer of this one."""

from __future__ import annotations

from kektordb._core import Hits, Store, Tx, __version__, cpu, verify

__all__ = ["Hits", "Store", "Tx", "__version__", "cpu", "verify"]
