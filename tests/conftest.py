"""Fixtures every test may use, and how tests share a machine when several workers run them (pytest-xdist)."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import itertools
import os
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

# Tests that start processes mostly wait for them, all others compute.
WAITING = (
    *("tests/live/", "tests/protocols/mcp/live/", "tests/protocols/otc/chain/", "tests/interop/"),
    *("tests/unit/demo/", "tests/fuzz/test_openapi.py"),
)
# These start something for all their tests: they stay together.
SHARING = ("tests/protocols/otc/chain/", "tests/live/cli/", "tests/live/docs/", "tests/interop/")

# Two files that are there anyway: they are locked, never written, and a lock ends with the process that holds it.
ROOM = Path(__file__)
DOOR = ROOM.with_name("__init__.py")

HANGS_S = 600.0  # a test that takes so long says where it is
REARMED_S = 30.0  # how much shorter it may be
WATCHED, STDERR = pytest.StashKey[float](), pytest.StashKey[int]()  # since when, and where it is told

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
def pytest_collection() -> Generator[None, object, object]:
    """Spares the collector what stays to the end: half a million objects, which it would look through again and again.

    Some tests collect garbage to see what is left, which takes a tenth of a second then.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Has each of several workers begin with as much to wait for as to compute, so that no processor idles."""
    if hasattr(config, "workerinput"):
        # Those that run alone come first: nobody is in the middle of a long test then, for whose end they would wait.
        items[:] = sorted(mixed(items), key=lambda item: item.get_closest_marker("alone") is None)


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Puts the groups of tests that wait at equal distances between those that compute, both in their order."""
    groups = [list(group) for _, group in itertools.groupby(items, group_of)]
    waiting = [group for group in groups if group[0].nodeid.startswith(WAITING)]
    computing = [group for group in groups if not group[0].nodeid.startswith(WAITING)]
    ahead = itertools.accumulate(map(len, computing), initial=0)
    many = sum(map(len, computing))
    placed = [(number / len(waiting), group) for number, group in enumerate(waiting)]
    placed += [(before / many, group) for before, group in zip(ahead, computing, strict=False)]
    placed.sort(key=lambda each: each[0])
    return [item for _, group in placed for item in group]


def group_of(item: pytest.Item) -> str:
    """The tests that stay together: those of a module, or of a folder that shares what it starts."""
    shared = next((folder for folder in SHARING if item.nodeid.startswith(folder)), None)
    return shared or item.nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs a test marked `alone`, with its fixtures, while every other worker waits between two of its own.

    Whoever waits for the room keeps the door, so that one who wants it alone is not passed by the many who share it.
    """
    watch(item.config)
    if not hasattr(item.config, "workerinput"):  # not a worker of several
        return (yield)
    mode = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
    with ROOM.open("rb") as room:
        with DOOR.open("rb") as door:
            fcntl.flock(door, mode)
            fcntl.flock(room, mode)
        return (yield)


def watch(config: pytest.Config) -> None:
    """Has the interpreter tell of a test that hangs, and end a worker that runs one: pytest then reports it as failed.

    pytest can (`faulthandler_timeout`), but for each test it waits for a thread to begin and for it to end: up to 3 ms
    on a busy machine, ten thousand times.
    """
    now = time.monotonic()
    if now - config.stash.get(WATCHED, -REARMED_S) >= REARMED_S:
        is_worker = hasattr(config, "workerinput")
        faulthandler.dump_traceback_later(HANGS_S, file=config.stash[STDERR], exit=is_worker)
        config.stash[WATCHED] = now


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # before it is captured


def pytest_unconfigure(config: pytest.Config) -> None:
    faulthandler.cancel_dump_traceback_later()
    os.close(config.stash[STDERR])
