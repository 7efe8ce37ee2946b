"""What every test shares: the guard that the installed wheel is under test, and hypothesis profiles."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile("short", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("long", settings.get_profile("short"), max_examples=5_000)
settings.load_profile(os.environ.get("KEKTORDB_TEST_PROFILE", "short"))

SEED = int(os.environ.get("KEKTORDB_TEST_SEED", "") or random.SystemRandom().randrange(2**32))


def pytest_report_header() -> list[str]:
    return [f"kektordb under test: {_home()}", f"KEKTORDB_TEST_SEED={SEED}"]


def pytest_sessionstart() -> None:
    if os.environ.get("KEKTORDB_TEST_INSTALLED") == "1" and ROOT / "python" in _home().parents:
        pytest.exit(f"the source tree is under test ({_home()}), wanted the installed wheel", returncode=3)


def _home() -> Path:
    found = importlib.util.find_spec("kektordb")
    if found is None or not found.submodule_search_locations:
        pytest.exit("kektordb is not installed here: run make test", returncode=3)
    return Path(found.submodule_search_locations[0]).resolve()


@pytest.fixture
def seed() -> int:
    """The seed of this run; printed in the header, set it again with KEKTORDB_TEST_SEED."""
    return SEED


@pytest.fixture
def rng(seed: int) -> random.Random:
    return random.Random(seed)
