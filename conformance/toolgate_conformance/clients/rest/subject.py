"""Runs the client under test against the scripted tool server, once per scenario, and records what it does.

The operator's command lists the tools, calls one of them, prints the value as JSON and exits with 0, or with another
code if there is no value. It finds what it needs in its environment: TOOLGATE_KIT_URL, _TOKEN (a bearer token), _TOOL
(the id, with or without a version), _INPUT (JSON), _CALL_ID and _SCENARIO (a name); {url}, {token}, {tool}, {input},
{call_id} and {scenario} in its arguments are replaced by the same. TOOLGATE_KIT_AUTHORIZATION and TOOLGATE_KIT_SECRETS
are JSON objects of tokens and secrets by id, for tools that require them. BROWSER prints a URL in place of opening it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from toolgate_conformance.clients.program import LIMIT_S, ProgramUnderTest, made_up
from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.clients.rest.scenarios import (
    ASKED_ACCESS,
    ASKED_SECRET,
    OTHER_ACCESS,
    OTHER_SECRET,
    SCENARIOS,
    RestScenario,
    RestScript,
)
from toolgate_conformance.clients.scripted import ScriptedServer
from toolgate_conformance.servers.rest.forms import Form


class RestClient(ProgramUnderTest[RestObservation]):
    """The client under test."""

    def __init__(self, form: Form, command: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        super().__init__(command, limit_s=limit_s)
        self.form = form

    async def play(self, name: str) -> RestObservation:
        scenario, server = SCENARIOS[name], ScriptedServer()
        script = RestScript(scenario, self.form)
        try:
            await server.start(script.answer)
            script.elsewhere_url = server.elsewhere_url
            return await self._observe(name, scenario, server)
        finally:
            await server.aclose()

    async def _observe(self, name: str, scenario: RestScenario, server: ScriptedServer) -> RestObservation:
        token, call_id, url = made_up("kit-token"), str(uuid.uuid4()), server.url + scenario.path
        access = {id_: made_up("kit-access") for id_ in (ASKED_ACCESS, OTHER_ACCESS)}
        secrets = {id_: made_up("kit-secret") for id_ in (ASKED_SECRET, OTHER_SECRET)}
        words = {
            "url": url,
            "token": token,
            "tool": scenario.tool,
            "input": json.dumps(scenario.input),  # in ASCII: whatever the encoding of the command's words is
            "scenario": name,
            "call_id": call_id,
        }
        code, stdout, stderr = await self.start(words, access, secrets)
        requests, replies = tuple(server.requests), tuple(server.replies)
        return RestObservation(
            form=self.form,
            scenario=scenario,
            token=token,
            call_id=call_id,
            takes_call_id=any("{call_id}" in word for word in self.command),
            secrets=access | secrets,
            exit_code=code,
            stdout=stdout,
            stderr=stderr,
            requests=requests,
            replies=replies,
        )
