"""What the README shows runs and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_fifteen_lines_print_what_their_comments_say(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- run by the tests -->\n```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    code = block.group(1)
    want = [line.split("  # ")[1] for line in code.splitlines() if "print(" in line]
    assert len(want) == 3
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:-1] == want


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md"])
def test_links_and_paths_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / target).exists(), f"{page} links to {target}"
    for path in re.findall(r"`((?:rust|native|python|tests|docs|tools)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), f"{page} names {path}"
