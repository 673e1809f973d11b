"""Reads the configuration again: on request, or when one of its files has changed.

A configuration that cannot be used is logged, and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NoReturn

from gateway.assembly.files import Fingerprints, fingerprints, named_files
from gateway.configfile.substitution import Substitution, files_in
from gateway.core.errors import ConfigError
from gateway.net.server import ServerError
from gateway.settings import Config
from gateway.settings import load as config

log = logging.getLogger("gateway.reload")

LOOK_S = 1.0  # between two looks at the files; a handful of system calls each


class Reloader:
    """Reads a file, and again on request or when one of its files has changed.

    `adapt` puts in what the command line says beside the file.
    """

    def __init__(
        self, path: Path, *, adapt: Callable[[Config], Config] = lambda read: read, look_s: float = LOOK_S
    ) -> None:
        self._path = path
        self._adapt = adapt
        self._look_s = look_s
        self._used: Config | None = None
        self._put_in: tuple[str, ...] = ()  # the files of `${file:...}` in the last text
        self._named: tuple[str, ...] = ()  # the files that the last text names by path
        self._seen: Fingerprints = {}
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Has the file read again."""
        self._requested.set()

    def read(self) -> Config:
        """Reads the file once, and watches all files that it names. Raises ConfigError."""
        self._seen = self._look()  # before they are read: what changes meanwhile is seen at the next look
        self._put_in = ()
        text = config.read_text(self._path)
        self._put_in = tuple(str(self._path.parent / name) for name in files_in(text))
        self._see_more()
        source = str(self._path)
        try:
            substitution = Substitution(os.environ, self._path.parent)
            read = self._adapt(config.validate(config.parse(text, source), source, substitution).config)
        except ConfigError as exc:
            if exc.files:
                self._named = tuple(exc.files)
                # One that is new may have come since the text was read.
                self._seen = {path: self._seen.get(path) for path in self._look()}
            raise
        self._named = tuple(named_files(read))
        self._see_more()
        return read

    def use(self, used: Config) -> None:
        """Watches the files of a configuration as long as it is in use."""
        self._used = used

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
        while not await self._is_requested():
            now = await asyncio.to_thread(self._look)
            # The same twice in a row, so that they are not being written or swapped at the moment.
            if now != self._seen and now == last:
                return
            last = now

    async def _is_requested(self) -> bool:
        """Waits for a request; False when it is time to look at the files."""
        watch = self._used is not None and self._used.reload.watch
        try:
            async with asyncio.timeout(self._look_s if watch else None):
                await self._requested.wait()
        except TimeoutError:
            return False
        return True

    async def _reload(self, apply: Callable[[Config], Awaitable[None]]) -> Sequence[str]:
        """Returns why the file is not used; nothing if it is."""
        self._requested.clear()
        try:
            read = await asyncio.to_thread(self.read)
            await apply(read)
        except ConfigError as exc:
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
        self.use(read)
        log.info("the configuration was read again", extra={"file": str(self._path)})
        return ()

    def _see_more(self) -> None:
        """Adds the fingerprints of new files; whether the others have changed, the next look finds out."""
        self._seen = {path: self._seen.get(path, found) for path, found in self._look().items()}

    def _look(self) -> Fingerprints:
        """The fingerprints of the file and of all files that it or the configuration in use names."""
        paths = (str(self._path), *self._put_in, *self._named, *named_files(self._used))
        return fingerprints(dict.fromkeys(paths))
