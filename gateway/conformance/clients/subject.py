"""Runs the client under test against the scripted tool server, once per scenario, and records what it does.

The operator's command lists the tools, calls one of them, prints the value as JSON and exits with 0, or with another
code if there is no value. It finds what it needs in its environment: TOOLGATE_KIT_URL, _TOKEN (a bearer token), _TOOL
(the id, with or without a version), _INPUT (JSON), _CALL_ID and _SCENARIO (a name); {url}, {token}, {tool}, {input},
{call_id} and {scenario} in its arguments are replaced by the same. TOOLGATE_KIT_AUTHORIZATION and TOOLGATE_KIT_SECRETS
are JSON objects of tokens and secrets by id, for tools that require them. BROWSER prints a URL in place of opening it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from gateway.conformance.checks import Exchange, UnfitError
from gateway.conformance.clients.commands import run_command
from gateway.conformance.clients.scenarios import (
    ASKED_ACCESS,
    ASKED_SECRET,
    OTHER_ACCESS,
    OTHER_SECRET,
    SCENARIOS,
    Scenario,
    Script,
)
from gateway.conformance.clients.scripted import ScriptedServer
from gateway.conformance.clients.seen import LIMIT_S, Seen
from gateway.conformance.rest import Form

AT_ONCE = 4  # commands
PLACEHOLDER = re.compile(r"\{(url|token|tool|input|scenario|call_id)\}")
LOCAL = "127.0.0.1,localhost"
BROWSER = "echo %s"  # of the user, who gets a page to see: Python's webbrowser and xdg-open take it


class ClientSubject:
    """The client under test. `seen` runs its command once per scenario."""

    def __init__(self, form: Form, command: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        self.form = form
        self.command = command
        self._limit_s = limit_s
        self._runs: dict[str, asyncio.Task[Seen]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def aclose(self) -> None:
        """Ends the commands that are still running."""
        for run in self._runs.values():
            run.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def seen(self, scenario: str) -> Seen:
        """What the client does in a scenario. Raises UnfitError if the command cannot be started."""
        if scenario not in self._runs:
            self._runs[scenario] = asyncio.create_task(self._run(scenario))
        return await asyncio.shield(self._runs[scenario])  # a check that times out leaves the run to the next check

    async def _run(self, name: str) -> Seen:
        async with self._slots:
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
        command = [filled(word, words) for word in self.command]
        try:
            code, stdout, stderr = await run_command(command, environment(words, access, secrets), self._limit_s)
        except (OSError, ValueError) as exc:  # ValueError: a word with NUL
            raise UnfitError("A command that can be started.", Exchange(" ".join(command), str(exc))) from exc
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
    if not command or shutil.which(command[0]) is None:
        raise ValueError(f"{command[0]!r} is no program that can be run." if command else "There is no command.")
    subject = ClientSubject(form, command, limit_s=limit_s)
    try:
        yield subject
    finally:
        await subject.aclose()


def filled(word: str, words: Mapping[str, str]) -> str:
    """An argument of the command with its placeholders replaced, once."""
    return PLACEHOLDER.sub(lambda found: words[found[1]], word)


def made_up(kind: str) -> str:
    """A random secret, which appears nowhere by chance."""
    return f"{kind}-{uuid.uuid4().hex}"


def environment(words: Mapping[str, str], access: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command: ours, without a proxy for this machine, and the variables of the kit."""
    told = {f"TOOLGATE_KIT_{name.upper()}": value for name, value in words.items()}
    told["TOOLGATE_KIT_AUTHORIZATION"] = json.dumps(access)
    told["TOOLGATE_KIT_SECRETS"] = json.dumps(secrets)
    told["BROWSER"] = BROWSER
    for name in ("no_proxy", "NO_PROXY"):
        told[name] = ",".join(filter(None, (os.environ.get(name), LOCAL)))
    return dict(os.environ) | told
