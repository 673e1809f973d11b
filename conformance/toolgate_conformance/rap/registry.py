"""How a module registers its checks of RAP servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolgate_conformance.checks import Check, Level
from toolgate_conformance.rap.server import RapServer

MUST, SHOULD, GOOD = Level

RunCheck = Callable[[RapServer], Awaitable[None]]


class Registry:
    """The checks of one module: each is a function that `@check(number, level, title, ...)` decorates."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def __call__(
        self, number: int, level: Level, title: str, *, page: str, remedy: str
    ) -> Callable[[RunCheck], RunCheck]:
        """Registers a check; `page` is the page of the documents of RAP that it follows."""

        def add(run: RunCheck) -> RunCheck:
            self.checks.append(Check(f"RAP-{number:03d}", level, title, f"RAP, {page}", remedy, run))
            return run

        return add
