"""How a module registers its checks of RAP runtimes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gateway.conformance.checks import Check, Level
from gateway.conformance.clients.rap.subject import RapRuntime

MUST, SHOULD, GOOD = Level

Judge = Callable[..., None]  # takes what was seen in each scenario, in their order


class Registry:
    """The checks of one module, and the scenarios that each needs, by its id."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.scenarios: dict[str, Sequence[str]] = {}

    def __call__(
        self, number: int, level: Level, title: str, *scenarios: str, page: str, remedy: str
    ) -> Callable[[Judge], Judge]:
        """Registers a check; `page` is the page of the specification that it follows."""

        def add(judge: Judge) -> Judge:
            async def run(runtime: RapRuntime) -> None:
                judge(*await asyncio.gather(*(runtime.seen(name) for name in scenarios)))

            id_ = f"RAPC-{number:03d}"
            self.checks.append(Check(id_, level, title, f"RAP, {page}", remedy, run))
            self.scenarios[id_] = scenarios
            return judge

        return add
