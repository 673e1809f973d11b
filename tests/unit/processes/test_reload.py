"""When a configuration is read again: asked for, or because one of its files is another one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.assembly.files import named_files
from gateway.processes.reload import Reloader
from gateway.settings import BearerAuthSettings, Config
from tests.support.authority import Authority
from tests.support.changing import copy, write

pytestmark = pytest.mark.anyio

LOOK_S = 0.02
DEADLINE_S = 10.0
FILE = """
auth: none
reload: {watch: %s}
backends: {crm: {protocol: oxp, url: "http://127.0.0.1:9101", auth: {bearer: "${file:secrets/token}"}}}
"""


@dataclass
class Taker:
    """Takes configurations, and remembers what was said."""

    reloader: Reloader
    taken: list[Config] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)

    async def apply(self, taken: Config) -> None:
        self.taken.append(taken)

    @property
    def tokens(self) -> list[str]:
        """The token of each configuration that was taken."""
        found = [taken.backends["crm"].auth for taken in self.taken]
        return [auth.bearer.get_secret_value() for auth in found if isinstance(auth, BearerAuthSettings)]

    async def until_counted(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.counted) < count:  # noqa: ASYNC110 - it sets no event
                await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def reloading(path: Path) -> AsyncIterator[Taker]:
    """Reads the file, and again whenever that is due."""
    reloader = Reloader(path, look_s=LOOK_S)
    reloader.use(reloader.read())
    taker = Taker(reloader)
    task = asyncio.create_task(reloader.run(taker.apply, lambda outcome, _: taker.counted.append(outcome)))
    try:
        yield taker
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def mounted(folder: Path, token: str, generation: int) -> None:
    """Lays a secret out as Kubernetes mounts it, and swaps a link to a folder when there is another one."""
    fresh = folder / f"..{generation}"
    fresh.mkdir(parents=True)
    (fresh / "token").write_text(token)
    link = folder / f"..new{generation}"
    link.symlink_to(fresh.name)
    os.replace(link, folder / "..data")
    if not (folder / "token").is_symlink():
        (folder / "token").symlink_to("..data/token")


async def test_a_secret_that_is_swapped_by_a_link_above_it_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    mounted(tmp_path / "secrets", "the-first-token-of-all", 1)
    write(path, FILE % "true")
    async with reloading(path) as taker:
        mounted(tmp_path / "secrets", "the-second-token-of-it", 2)
        await taker.until_counted(1)
        write(path, "# changed\n" + FILE % "true")
        await taker.until_counted(2)
        assert taker.counted == ["ok", "ok"]
        assert taker.tokens == ["the-second-token-of-it"] * 2


async def test_what_is_broken_is_counted_once_and_read_again_when_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    mounted(tmp_path / "secrets", "the-first-token-of-all", 1)
    write(path, FILE % "true")
    async with reloading(path) as taker:
        (tmp_path / "secrets" / "token").unlink()
        await taker.until_counted(1)
        mounted(tmp_path / "secrets", "the-second-token-of-it", 2)
        await taker.until_counted(2)
        assert taker.counted == ["failed", "ok"]
        assert taker.tokens == ["the-second-token-of-it"]


class Opened:
    """Counts how often files are opened, as the interpreter itself reports it."""

    def __init__(self) -> None:
        self.paths: Counter[str] = Counter()
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            self.paths[str(arguments[0])] += 1


OPENED = Opened()  # an audit hook stays


async def test_a_file_is_read_once_for_a_change_and_not_at_all_without_one(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    mounted(tmp_path / "secrets", "the-first-token-of-all", 1)
    write(path, FILE % "true")
    async with reloading(path) as taker:
        before = OPENED.paths[str(path)]
        for _ in range(20):
            taker.reloader._look()  # by itself it would look as often as the machine lets it
        assert OPENED.paths[str(path)] == before
        write(path, "# changed\n" + FILE % "true")
        written = OPENED.paths[str(path)]
        await taker.until_counted(1)
        assert OPENED.paths[str(path)] - written == 1


@pytest.mark.parametrize("late", ["absent", "empty"])
async def test_a_certificate_that_comes_after_the_configuration_that_names_it_is_noticed(
    tmp_path: Path, late: str
) -> None:
    path = tmp_path / "gateway.yaml"
    mounted(tmp_path / "secrets", "the-first-token-of-all", 1)
    write(path, FILE % "true")
    authority = Authority(tmp_path)
    ca = tmp_path / "later.pem"
    async with reloading(path) as taker:
        write(path, (FILE % "true").replace('http://127.0.0.1:9101"', 'https://127.0.0.1:9101", tls: {ca: later.pem}'))
        await taker.until_counted(1)
        if late == "empty":
            ca.touch()
            await taker.until_counted(2)
        copy(authority.path, str(ca))
        expected = ["failed", "failed", "ok"] if late == "empty" else ["failed", "ok"]
        await taker.until_counted(len(expected))
        assert taker.counted == expected
        assert [list(named_files(taken)) for taken in taker.taken] == [[str(ca)]]


async def test_without_watch_it_is_read_only_when_asked_and_watching_begins_and_ends_with_the_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "gateway.yaml"
    mounted(tmp_path / "secrets", "the-first-token-of-all", 1)
    write(path, FILE % "false")
    async with reloading(path) as taker:
        write(path, FILE % "true")
        for _ in range(5):
            await asyncio.sleep(LOOK_S)
        assert taker.counted == []
        taker.reloader.request()
        await taker.until_counted(1)
        write(path, "# changed\n" + FILE % "false")
        await taker.until_counted(2)
        assert [taken.reload.watch for taken in taker.taken] == [True, False]


async def test_whatever_breaks_while_it_is_put_to_use_the_next_one_is_tried(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    write(path, "auth: none\n")
    outcomes = iter([ValueError("on purpose"), None])

    async def apply(_taken: Config) -> None:
        if (error := next(outcomes)) is not None:
            raise error

    reloader, counted = Reloader(path), asyncio.Queue[str]()
    task = asyncio.create_task(reloader.run(apply, lambda outcome, _: counted.put_nowait(outcome)))
    async with asyncio.timeout(DEADLINE_S):
        for outcome in ("failed", "ok"):
            reloader.request()
            assert await counted.get() == outcome
    task.cancel()
