"""Links to challenges in the hands of somebody who opens very many of them at once: who notices."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from tests.live.faults.site import site
from tests.support.calling import call, value
from tests.support.processes import until
from tests.support.toolserver import Exchange, definition, echo

LINKS = 30  # each is a challenge of its own
AT_ONCE = 8  # looks at one backend, which has 20 connections here
LOOKS = 100


class Consent:
    """A tool that always wants another consent, and the pages that say how each of them stands."""

    def __init__(self) -> None:
        self.wanted = 0
        self.checks: Counter[str] = Counter()
        self.under_way = 0
        self.open = asyncio.Event()

    async def want(self, exchange: Exchange) -> None:
        self.wanted += 1
        challenge = {"id": "c", "url": "https://door.example/", "check_url": f"/check/{self.wanted}"}
        await exchange.reply({"message": "", "missing_requirements": {"authorization": [challenge]}}, status=400)

    async def answer(self, exchange: Exchange) -> None:
        """Answers a list at once, a check when it is let go."""
        if exchange.request.target == "/tools":
            await exchange.reply({"tools": [definition("Lab.Consent"), definition("Lab.Echo")]})
            return
        self.checks[exchange.request.target] += 1
        self.under_way += 1
        await self.open.wait()
        self.under_way -= 1
        await exchange.reply({"status": "completed"})


@pytest.mark.anyio
async def test_any_number_of_looks_at_challenges_asks_a_tool_server_little_and_delays_no_call() -> None:
    consent = Consent()
    tools = {"Lab.Consent": consent.want, "Lab.Echo": echo}
    async with site(tools, listing=consent.answer, max_concurrency=4) as place:

        async def look(link: str) -> str:
            answer = await place.http.get(link)
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
                return "429"
            return str(answer.json()["status"])

        links = []
        for _ in range(LINKS):
            document = (await call(place.http, "Lab.Consent")).json()
            links.append(document["missing_requirements"]["authorization"][0]["check_url"])

        looking = [asyncio.create_task(look(link)) for link in links]
        await until(lambda: sum(task.done() for task in looking) == LINKS - AT_ONCE, "all but a few are answered")
        assert value(await call(place.http, "Lab.Echo", {"n": 1})) == {"n": 1}
        assert (consent.under_way, len(consent.checks)) == (AT_ONCE, AT_ONCE)  # while these are still waited for
        consent.open.set()
        assert Counter(await asyncio.gather(*looking)) == {"pending": LINKS - AT_ONCE, "completed": AT_ONCE}

        asked, begun = sum(consent.checks.values()), time.monotonic()
        answers = Counter(await asyncio.gather(*(look(links[-1]) for _ in range(LOOKS))))
        took_s = time.monotonic() - begun
        assert answers.keys() == {"completed", "429"}
        assert 1 <= sum(consent.checks.values()) - asked <= 1 + took_s
