"""Runs the RCRT client under test against the scripted server, once per scenario, and records what it does.

The operator's command calls the tool once, prints the output of the response as JSON, and exits with 0; or with another
code if there is no output. Its environment is that of clients of other protocols, with TOOLGATE_KIT_OWNER_ID and
_AGENT_ID in place of a token: the server issues one for them.
"""

from __future__ import annotations

import json
import uuid

from toolgate_conformance.clients.program import ProgramUnderTest
from toolgate_conformance.clients.rcrt.observation import RcrtObservation
from toolgate_conformance.clients.rcrt.scenarios import INPUT, SCENARIOS, TOOL
from toolgate_conformance.clients.rcrt.server import RcrtScript
from toolgate_conformance.clients.scripted import ScriptedServer


class RcrtClient(ProgramUnderTest[RcrtObservation]):
    """The client under test."""

    async def play(self, name: str) -> RcrtObservation:
        scenario, owner_id = SCENARIOS[name], str(uuid.uuid4())
        server, script = ScriptedServer(), RcrtScript(scenario, owner_id)
        try:
            await server.start(script.answer)
            words = {
                "url": server.url + scenario.path,
                "owner_id": owner_id,
                "agent_id": str(uuid.uuid4()),
                "tool": TOOL,
                "input": json.dumps(INPUT),
                "scenario": name,
                "call_id": str(uuid.uuid4()),
            }
            code, stdout, stderr = await self.start(words)
            return RcrtObservation(
                scenario=scenario,
                owner_id=owner_id,
                exit_code=code,
                stdout=stdout,
                stderr=stderr,
                requests=tuple(server.requests),
                replies=tuple(server.replies),
                tokens=frozenset(script.tokens),
                crumbs=tuple(script.crumbs),
                sent=tuple(script.sent),
            )
        finally:
            await script.aclose()
            await server.aclose()
