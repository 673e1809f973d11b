"""Fixtures every test may use, and how tests share a machine when several workers run them (pytest-xdist)."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

# Two files that are there anyway: they are locked, never written, and a lock ends with the process that holds it.
ROOM = Path(__file__)
DOOR = ROOM.with_name("__init__.py")

# How long an example takes says more of the machine than of the code; the tests of speed measure for themselves.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Coroutine tests run on uvloop, as the gateway does."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Has all that tests and the programs they start put into a temporary folder end up where pytest clears up.

    Whoever is killed leaves its folders behind.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TMPDIR", str(tmp_path_factory.mktemp("programs")))
        environment.setattr(tempfile, "tempdir", None)  # what it has found before
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs a test marked `alone`, with its fixtures, while every other worker waits between two of its own.

    Whoever waits for the room keeps the door, so that one who wants it alone is not passed by the many who share it.
    """
    if not hasattr(item.config, "workerinput"):  # not a worker of several
        return (yield)
    mode = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
    with ROOM.open("rb") as room:
        with DOOR.open("rb") as door:
            fcntl.flock(door, mode)
            fcntl.flock(room, mode)
        return (yield)
