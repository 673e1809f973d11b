"""Reads the configuration again: on request, or when one of its files has changed.

A configuration that cannot be used is logged, and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from gateway import config
from gateway.assembly.setup import Fingerprint, Fingerprints, fingerprints, named_files
from gateway.errors import ConfigError
from gateway.server import ServerError
from gateway.settings import Config
from gateway.settings.substitution import EXPRESSION

log = logging.getLogger("gateway.reload")

LOOK_S = 1.0  # between two looks at the files; a handful of system calls each


class Reloader:
    """Reads a file again. To be made before the file is first read, so that no change in between is missed.

    `adapt` puts in what the command line says beside the file.
    """

    def __init__(
        self, path: Path, *, adapt: Callable[[Config], Config] = lambda read: read, look_s: float = LOOK_S
    ) -> None:
        self._path = path
        self._adapt = adapt
        self._look_s = look_s
        self._config: Config | None = None
        self._expected: tuple[str, ...] = ()  # the files that the last text names by path
        self._text: tuple[Fingerprint | None, tuple[str, ...]] = None, ()  # its fingerprint, and its `${file:...}`
        self._seen = self._look()
        self._asked = asyncio.Event()

    def uses(self, used: Config) -> None:
        """Watches the files of a configuration that was read."""
        self._config = used
        self._see_more()

    def ask(self) -> None:
        """Has the file read again."""
        self._asked.set()

    async def run(
        self, apply: Callable[[Config], Awaitable[None]], count: Callable[[str, Sequence[str]], None]
    ) -> NoReturn:
        """Reads the file whenever that is due, and applies it; `count` gets `ok` or `failed`, and what is wrong."""
        while True:
            await self._due()
            problems = await self._reload(apply)
            count("failed" if problems else "ok", problems)

    async def _due(self) -> None:
        last = self._seen
        while not await self._is_asked():
            now = await asyncio.to_thread(self._look)
            # The same twice in a row, so that they are not being written or swapped at the moment.
            if now != self._seen and now == last:
                return
            last = now

    async def _is_asked(self) -> bool:
        """Waits for a request; False when it is time to look at the files."""
        watch = self._config is not None and self._config.reload.watch
        try:
            async with asyncio.timeout(self._look_s if watch else None):
                await self._asked.wait()
        except TimeoutError:
            return False
        return True

    async def _reload(self, apply: Callable[[Config], Awaitable[None]]) -> Sequence[str]:
        """Returns why the file is not used; nothing if it is."""
        self._asked.clear()
        # Before they are read: what changes meanwhile is seen at the next look.
        self._seen = await asyncio.to_thread(self._look)
        try:
            read = self._adapt(await asyncio.to_thread(config.load, self._path))
            await asyncio.to_thread(self._expect, tuple(named_files(read)))
            await apply(read)
        except ConfigError as exc:
            if exc.files:
                await asyncio.to_thread(self._await, tuple(exc.files))
            for problem in exc.problems:
                log.warning("the configuration has a problem", extra={"problem": problem})
            log.warning(
                "the configuration is not used; the last good one stays in use", extra={"file": str(self._path)}
            )
            return exc.problems
        except ServerError as exc:
            reason = {"reason": str(exc)}
            log.warning("the configuration could not be applied; the last good one stays in use", extra=reason)
            return [str(exc)]
        except Exception:  # whatever a new configuration breaks, the old one goes on
            log.exception("the configuration could not be applied; the last good one stays in use")
            return ["It could not be applied; the log says why."]
        self.uses(read)
        log.info("the configuration was read again", extra={"file": str(self._path)})
        return ()

    def _expect(self, files: tuple[str, ...]) -> None:
        """Watches files that are read when a configuration is put to use."""
        self._expected = files
        self._see_more()

    def _await(self, files: tuple[str, ...]) -> None:
        """Watches files of a configuration that cannot be used; one that is new may have come since that was read."""
        self._expected = files
        self._seen = {path: self._seen.get(path) for path in self._look()}

    def _see_more(self) -> None:
        """Adds the fingerprints of new files; whether the others have changed, the next look finds out."""
        self._seen = {path: self._seen.get(path, found) for path, found in self._look().items()}

    def _look(self) -> Fingerprints:
        """The fingerprints of the file and of all files that it or the configuration in use names."""
        paths = (str(self._path), *self._named(), *self._expected, *named_files(self._config))
        return fingerprints(dict.fromkeys(paths))

    def _named(self) -> tuple[str, ...]:
        """The files of `${file:...}`, whether or not the rest of the text is of any use.

        The text is searched once for each fingerprint, which is taken before it is read.
        """
        path = str(self._path)
        mark = fingerprints([path])[path]
        if mark is None or mark != self._text[0]:
            self._text = mark, tuple(self._search())
        return self._text[1]

    def _search(self) -> Iterator[str]:
        try:
            with self._path.open("rb") as file:
                text = file.read(config.MAX_BYTES).decode(errors="replace")
        except OSError:
            return
        for match in EXPRESSION.finditer(text):
            if match["source"] == "file":
                yield str(self._path.parent / match["name"])
