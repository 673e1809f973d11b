"""How a module registers its checks of what a program does in some scenarios."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from toolgate_conformance.checks import Check, Level
from toolgate_conformance.clients.runs import Runs

MUST, SHOULD, GOOD = Level

Judge = Callable[..., None]  # takes what was seen in each scenario, in their order


class Registry:
    """The checks of one module, and the scenarios that each needs, by its id.

    Ids begin with `prefix`; sections with `source`, the name of the specification, if there is only one.
    """

    def __init__(self, prefix: str, source: str = "") -> None:
        self.checks: list[Check] = []
        self.scenarios: dict[str, Sequence[str]] = {}
        self._prefix = prefix
        self._source = f"{source}, " if source else ""

    def __call__(
        self, number: int, level: Level, title: str, *scenarios: str, section: str, remedy: str
    ) -> Callable[[Judge], Judge]:
        """Registers a check; `section` is the place in the specification that it follows."""

        def add(judge: Judge) -> Judge:
            async def run(program: Runs[Any]) -> None:
                judge(*await asyncio.gather(*(program.seen(name) for name in scenarios)))

            id_ = f"{self._prefix}-{number:03d}"
            self.checks.append(Check(id_, level, title, self._source + section, remedy, run))
            self.scenarios[id_] = scenarios
            return judge

        return add
