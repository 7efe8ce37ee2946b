"""Children that write until they are killed; `test_kill.py` starts this as a program of its own.

For every line "folder seed" on stdin one child is forked. It opens the database in the folder and changes it for ever,
saying on stdout what it is about to do ("try [...]") and, when the call has returned, "ok [...]". Only the fork knows
threads of no engine: the parent never opens a database.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from typing import Any

import numpy as np

import kektordb
from kektordb.embed.fake import HashEmbedder

DIM = 8


def vector(version: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array([[(version * 37 + i * 11) % 101 + 1 for i in range(DIM)]], np.float32)


def word(version: int) -> str:
    """A word of its own for each version; of letters that no stemmer takes for an ending."""
    digits = np.base_repr(version, 16).lower()
    return "w" + digits.translate(str.maketrans("0123456789abcdef", "bcdfghjkmnpqrtvx"))


def payload(version: int) -> dict[str, Any]:
    return {"n": version, "body": f"{word(version)} common"}


def say(word: str, what: object) -> None:
    os.write(1, f"{word} {json.dumps(what)}\n".encode())


def work(folder: str, seed: int) -> None:
    rng = random.Random(seed)
    versions = itertools.count(seed * 100_000)
    with kektordb.open(folder) as db:
        if "docs" not in db:
            db.create_collection("docs", dim=DIM, metric="l2", text_fields=["body"], history=rng.random() < 0.5)
        docs, kv, mem = db["docs"], db.kv("state"), db.memory("m", embedder=HashEmbedder(16))
        ids = [f"id/{i}" for i in range(60)]
        lineages: list[str] = []
        while True:
            kind = rng.choices(
                ("put", "many", "del", "set", "kv", "batch", "save", "evolve", "checkpoint", "vacuum"),
                (6, 3, 2, 3, 2, 3, 2, 2, 2, 0.3),
            )[0]
            v = next(versions)
            some = rng.sample(ids, rng.randint(2, 25))
            if kind == "put":
                say("try", ["put", {some[0]: v}])
                docs.upsert(some[0], vector(v), payload(v))  # type: ignore[arg-type]
                say("ok", None)
            elif kind == "many":
                say("try", ["put", dict.fromkeys(some, v)])
                docs.upsert(some, np.repeat(vector(v), len(some), 0), [payload(v)] * len(some))
                say("ok", None)
            elif kind == "del":
                say("try", ["del", some[:3]])
                docs.delete(some[:3])
                say("ok", None)
            elif kind == "set":
                there = [i for i in some if i in docs][:4]
                if there:
                    say("try", ["set", dict.fromkeys(there, v)])
                    docs.set_payload(there, payload(v))
                    say("ok", None)
            elif kind == "kv":
                say("try", ["kv", f"k{v % 7}", v])
                kv.set(f"k{v % 7}", str(v).encode())
                say("ok", None)
            elif kind == "batch":
                say("try", ["batch", dict.fromkeys(some, v), f"k{v % 7}", v])
                with db.batch(reason="both or none") as b:
                    b.upsert("docs", some, np.repeat(vector(v), len(some), 0), [payload(v)] * len(some))
                    b.kv_set("state", f"k{v % 7}", str(v).encode())
                say("ok", None)
            elif kind == "save":
                say("try", ["save", v])
                lineages.append(mem.save(f"fact{v} is known").id)
                say("ok", lineages[-1])
            elif kind == "evolve" and lineages:
                at = rng.randrange(len(lineages))
                say("try", ["evolve", lineages[at], v])
                lineages[at] = mem.evolve(lineages[at], f"fact{v} is known better").id
                say("ok", lineages[at])
            elif kind == "checkpoint":
                say("try", ["checkpoint"])
                db.checkpoint()
                say("ok", None)
            elif kind == "vacuum":
                say("try", ["vacuum"])
                db.vacuum()
                say("ok", None)


def main() -> None:
    for line in sys.stdin:
        folder, seed = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                work(folder, int(seed))
            except BaseException as e:
                say("failed", repr(e))
            os._exit(1)
        say("pid", pid)
        os.waitpid(pid, 0)
        say("dead", pid)


if __name__ == "__main__":
    main()
