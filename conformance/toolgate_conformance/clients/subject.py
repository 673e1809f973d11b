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
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from toolgate_conformance.clients.runs import LIMIT_S, Runs, made_up
from toolgate_conformance.clients.scenarios import (
    ASKED_ACCESS,
    ASKED_SECRET,
    OTHER_ACCESS,
    OTHER_SECRET,
    SCENARIOS,
    Scenario,
    Script,
)
from toolgate_conformance.clients.scripted import ScriptedServer
from toolgate_conformance.clients.seen import Seen
from toolgate_conformance.rest import Form


class ClientSubject(Runs[Seen]):
    """The client under test."""

    def __init__(self, form: Form, command: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        super().__init__(command, limit_s=limit_s)
        self.form = form

    async def play(self, name: str) -> Seen:
        scenario, server = SCENARIOS[name], ScriptedServer()
        script = Script(scenario, self.form)
        try:
            await server.start(script.answer)
            script.elsewhere_url = server.elsewhere_url
            return await self._observe(name, scenario, server)
        finally:
            await server.aclose()

    async def _observe(self, name: str, scenario: Scenario, server: ScriptedServer) -> Seen:
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
        return Seen(
            form=self.form,
            scenario=scenario,
            url=url,
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


@asynccontextmanager
async def client_subject(
    form: Form, command: Sequence[str], *, limit_s: float = LIMIT_S
) -> AsyncIterator[ClientSubject]:
    """The client that a command starts. Raises ValueError if there is no such program."""
    subject = ClientSubject(form, command, limit_s=limit_s)
    try:
        yield subject
    finally:
        await subject.aclose()
