"""The wheel runs on any processor of its kind: wide kernels are chosen at run time and agree with the plain ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys

_SEARCH = """
import json, sys
import numpy as np
import kektordb
from kektordb import _core
rng = np.random.default_rng(7)
out = {"cpu": _core.cpu}
for metric in ("cosine", "dot", "l2"):
    for dtype in ("float32", "float16", "int8"):
        with kektordb.open(":memory:") as db:
            c = db.create_collection("c", dim=97, metric=metric, dtype=dtype, index="flat")
            v = rng.standard_normal((300, 97)).astype(np.float32)
            c.upsert([f"r{i}" for i in range(300)], v)
            hits = c.search(v[5] + 0.1, k=10)
            out[f"{metric} {dtype}"] = [list(hits.ids), [float(d) for d in hits.distances]]
json.dump(out, sys.stdout)
"""


def _answers(cpu: str | None) -> dict[str, object]:
    env = {k: v for k, v in os.environ.items() if k != "KEKTORDB_CPU"}
    if cpu is not None:
        env["KEKTORDB_CPU"] = cpu
    done = subprocess.run(
        [sys.executable, "-c", _SEARCH], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_searches_agree_with_all_wide_kernels_masked() -> None:
    wide, plain = _answers(None), _answers("scalar")
    assert plain.pop("cpu") == "scalar"
    wide.pop("cpu")
    assert set(wide) == set(plain)
    for case, answer in wide.items():
        (ids, distances), (plain_ids, plain_distances) = answer, plain[case]  # type: ignore[misc]
        assert ids == plain_ids, case  # type: ignore[has-type]
        for a, b in zip(distances, plain_distances, strict=True):  # type: ignore[has-type]
            assert abs(a - b) <= 1e-4 * max(1.0, abs(a)), case  # type: ignore[has-type]
