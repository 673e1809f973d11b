"""Runs the command of an operator, once per scenario, and keeps what was seen."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Self, TypeVar

from toolgate_conformance.checks import Exchange, UnfitError
from toolgate_conformance.clients.commands import run_command

AT_ONCE = 4  # commands
LIMIT_S = 25.0  # for one run of the command; a check needs at most a few runs, which take place at the same time
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
LOCAL = "127.0.0.1,localhost"
BROWSER = "echo %s"  # of the user, who gets a page to see: Python's webbrowser and xdg-open take it

ObservationT = TypeVar("ObservationT")


class ProgramUnderTest(ABC, Generic[ObservationT]):
    """The program that a command starts: `seen` runs it once per scenario. A context, which ends what still runs."""

    def __init__(self, command: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        """Raises ValueError if there is no such program."""
        if not command or shutil.which(command[0]) is None:
            raise ValueError(f"{command[0]!r} is no program that can be run." if command else "There is no command.")
        self.command = command
        self._limit_s = limit_s
        self._runs: dict[str, asyncio.Task[ObservationT]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for run in self._runs.values():
            run.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def seen(self, scenario: str) -> ObservationT:
        """What the program does in a scenario. Raises UnfitError if the command cannot be started."""
        if scenario not in self._runs:
            self._runs[scenario] = asyncio.create_task(self._run(scenario))
        return await asyncio.shield(self._runs[scenario])  # a check that times out leaves the run to the next check

    @abstractmethod
    async def play(self, name: str) -> ObservationT:
        """Plays a scenario to the command."""

    async def start(
        self,
        words: Mapping[str, str],
        access: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
        *,
        interruption: asyncio.Event | None = None,
    ) -> tuple[int | None, str, str]:
        """Runs the command to its end: exit code, output and error output. The `interruption` sends it SIGINT.

        Raises UnfitError if it cannot be started.
        """
        command = [_filled(word, words) for word in self.command]
        environment = _environment(words, access, secrets)
        try:
            return await self.execute(command, environment, interruption or asyncio.Event())
        except (OSError, ValueError) as exc:  # ValueError: a word with NUL
            raise UnfitError("A command that can be started.", Exchange(" ".join(command), str(exc))) from exc

    async def execute(
        self, command: Sequence[str], environment: Mapping[str, str], interruption: asyncio.Event
    ) -> tuple[int | None, str, str]:
        """Runs a command to its end: exit code, output and error output."""
        return await run_command(command, environment, self._limit_s, interruption)

    async def _run(self, name: str) -> ObservationT:
        async with self._slots:
            return await self.play(name)


def made_up(kind: str) -> str:
    """A random secret, which appears nowhere by chance."""
    return f"{kind}-{uuid.uuid4().hex}"


def _filled(word: str, words: Mapping[str, str]) -> str:
    """An argument of the command with its placeholders replaced, once."""
    return PLACEHOLDER.sub(lambda match: words.get(match[1], match[0]), word)


def _environment(words: Mapping[str, str], access: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command: ours, without a proxy for this machine, and the variables of the kit."""
    variables = {f"TOOLGATE_KIT_{name.upper()}": value for name, value in words.items()}
    variables["TOOLGATE_KIT_AUTHORIZATION"] = json.dumps(access)
    variables["TOOLGATE_KIT_SECRETS"] = json.dumps(secrets)
    variables["BROWSER"] = BROWSER
    for name in ("no_proxy", "NO_PROXY"):
        variables[name] = ",".join(filter(None, (os.environ.get(name), LOCAL)))
    return dict(os.environ) | variables
