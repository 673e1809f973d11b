"""How a module registers its checks, and the documents that the checks cite."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolgate_conformance.checks import Check, Level
from toolgate_conformance.rcrt.server import RcrtServer

MUST, SHOULD, GOOD = Level
SERVER = "RCRT server, main.rs"
OPENAPI = "RCRT, openapi.json"
RUNNER = "RCRT tools-runner, index.ts"
TOOLS = "RCRT, deno-runtime.ts"
STANDARD = "RCRT Universal Tool Invocation Standard 1.0"

RunCheck = Callable[[RcrtServer], Awaitable[None]]


class Registry:
    """The checks of one module: each is a function that `@check(number, level, title, ...)` decorates."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def __call__(
        self, number: int, level: Level, title: str, *, section: str, remedy: str
    ) -> Callable[[RunCheck], RunCheck]:
        """Registers a check; `section` is the RCRT document that it follows, and the place in it."""

        def add(run: RunCheck) -> RunCheck:
            self.checks.append(Check(f"RCRT-{number:03d}", level, title, section, remedy, run))
            return run

        return add
