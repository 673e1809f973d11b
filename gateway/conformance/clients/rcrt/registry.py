"""How a module registers its checks of RCRT clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gateway.conformance.checks import Check, Level
from gateway.conformance.clients.rcrt.subject import RcrtClient

MUST, SHOULD, GOOD = Level

Judge = Callable[..., None]  # takes what was seen in each scenario, in their order


class Registry:
    """The checks of one module, and the scenarios that each needs, by its id."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.scenarios: dict[str, Sequence[str]] = {}

    def __call__(
        self, number: int, level: Level, title: str, *scenarios: str, section: str, remedy: str
    ) -> Callable[[Judge], Judge]:
        """Registers a check; `section` is the RCRT document that it follows, and the place in it."""

        def add(judge: Judge) -> Judge:
            async def run(client: RcrtClient) -> None:
                judge(*await asyncio.gather(*(client.seen(name) for name in scenarios)))

            id_ = f"RCRTC-{number:03d}"
            self.checks.append(Check(id_, level, title, section, remedy, run))
            self.scenarios[id_] = scenarios
            return judge

        return add
