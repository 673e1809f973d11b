"""Runs a client of others against the scripted tool server, once for each scenario, and keeps what it did.

The operator's command lists the tools, calls one of them, prints the value as JSON and exits with 0, or with another
code if there is no value. What it needs is in its environment: TOOLGATE_KIT_URL, _TOKEN (a bearer token), _TOOL (the
id, with or without a version), _INPUT (JSON), _CALL_ID and _SCENARIO (a word); {url}, {token}, {tool}, {input},
{call_id} and {scenario} in its words stand for the same. TOOLGATE_KIT_AUTHORIZATION and TOOLGATE_KIT_SECRETS are JSON
objects of tokens and secrets by id, for tools that require them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from gateway.conformance.checks import Exchange, UnfitError, shown
from gateway.conformance.rest import Form
from gateway.conformance.scenarios import (
    ASKED_ACCESS,
    ASKED_SECRET,
    OTHER_ACCESS,
    OTHER_SECRET,
    SCENARIOS,
    Scenario,
    Script,
    request_in,
)
from gateway.conformance.scripted import Reply, Request, ScriptedServer

LIMIT_S = 25.0  # for the command; a check needs at most two runs of it, at the same time
AT_ONCE = 4  # commands
MAX_OUTPUT_BYTES = 1024 * 1024  # of each stream that are kept
DRAIN_S = 2.0  # for output of a command that has ended
PLACEHOLDER = re.compile(r"\{(url|token|tool|input|scenario|call_id)\}")
LOCAL = "127.0.0.1,localhost"


class Seen(Struct, frozen=True):
    """What a client did in a scenario.

    `exit_code` None: it was ended at the limit of time. `secrets` are what it was given beside the credential:
    authorizations and secrets by id.
    """

    form: Form
    scenario: Scenario
    url: str
    token: str
    call_id: str
    secrets: Mapping[str, str]
    exit_code: int | None
    stdout: str
    stderr: str
    requests: Sequence[Request]
    replies: Sequence[Reply]

    @property
    def exchange(self) -> Exchange:
        """For a report: all that it sent, and what came of each."""
        sent = "\n\n".join(request.text for request in self.requests) or "(nothing)"
        end = f"(it was ended after {LIMIT_S:g} s)" if self.exit_code is None else f"(exit code {self.exit_code})"
        output = [
            f"{name}: {text.strip()}" for name, text in (("stdout", self.stdout), ("stderr", self.stderr)) if text
        ]
        answers = [reply.text for reply in self.replies]
        return Exchange(shown(sent), shown("\n\n".join(["\n".join([end, *output]), *answers])))

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with all that was seen unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)

    @property
    def lists(self) -> list[Request]:
        """Requests for the list, at the URL that it was told."""
        return [it for it in self.requests if not it.is_elsewhere and it.method == "GET" and _ends(it, "/tools")]

    @property
    def calls(self) -> list[Request]:
        """Calls, at the URL that it was told: whatever is sent with POST."""
        return [it for it in self.requests if not it.is_elsewhere and it.method == "POST"]

    @property
    def elsewhere(self) -> list[Request]:
        """What went to the other origin."""
        return [it for it in self.requests if it.is_elsewhere]

    def called(self) -> Mapping[str, Any]:
        """The request object of its first call. Raises UnfitError without one."""
        self.must(bool(self.calls), "A call of the tool.")
        found = request_in(self.form, self.calls[0])
        if found is None:
            raise UnfitError("A call in the form of the protocol.", self.exchange)
        return found

    @property
    def output(self) -> str:
        return f"{self.stdout}\n{self.stderr}"

    @property
    def has_succeeded(self) -> bool:
        return self.exit_code == 0

    def value(self) -> Any:
        """The value that it printed: all its output or the last line. Raises UnfitError."""
        text = self.stdout.strip()
        for each in (text, text.rpartition("\n")[2]):
            with suppress(ValueError, RecursionError):
                return json.loads(each)
        raise UnfitError("The value of the result as JSON on the standard output.", self.exchange)


def _ends(request: Request, path: str) -> bool:
    return request.path.rstrip("/").endswith(path)


class ClientSubject:
    """The client under test. `seen` runs its command for a scenario, once."""

    def __init__(self, form: Form, command: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        self.form = form
        self.command = command
        self._limit_s = limit_s
        self._runs: dict[str, asyncio.Task[Seen]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def aclose(self) -> None:
        """Ends what still runs."""
        for run in self._runs.values():
            run.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def seen(self, scenario: str) -> Seen:
        """What the client does in a scenario of SCENARIOS. Raises UnfitError if the command cannot be started."""
        if scenario not in self._runs:
            self._runs[scenario] = asyncio.create_task(self._run(scenario))
        return await asyncio.shield(self._runs[scenario])  # a check that takes too long leaves it to the next

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
        token, call_id, url = _made_up("kit-token"), str(uuid.uuid4()), server.url + scenario.path
        access = {id_: _made_up("kit-access") for id_ in (ASKED_ACCESS, OTHER_ACCESS)}
        secrets = {id_: _made_up("kit-secret") for id_ in (ASKED_SECRET, OTHER_SECRET)}
        words = {
            "url": url,
            "token": token,
            "tool": scenario.tool,
            "input": json.dumps(scenario.input),  # in ASCII: whatever the encoding of the command's words is
            "scenario": name,
            "call_id": call_id,
        }
        command = [PLACEHOLDER.sub(lambda found: words[found[1]], word) for word in self.command]
        environment = _environment(words, access, secrets)
        try:
            code, stdout, stderr = await _run_command(command, environment, self._limit_s)
        except (OSError, ValueError) as exc:  # ValueError: a word with NUL
            raise UnfitError("A command that can be started.", Exchange(" ".join(command), str(exc))) from exc
        requests, replies = tuple(server.requests), tuple(server.replies)
        return Seen(self.form, scenario, url, token, call_id, access | secrets, code, stdout, stderr, requests, replies)


@asynccontextmanager
async def client_subject(
    form: Form, command: Sequence[str], *, limit_s: float = LIMIT_S
) -> AsyncIterator[ClientSubject]:
    """The client that a command runs. Raises ValueError if there is no such program."""
    if not command or shutil.which(command[0]) is None:
        raise ValueError(f"{command[0]!r} is no program that can be run." if command else "There is no command.")
    subject = ClientSubject(form, command, limit_s=limit_s)
    try:
        yield subject
    finally:
        await subject.aclose()


def _made_up(kind: str) -> str:
    """A secret that nothing else can hold by chance."""
    return f"{kind}-{uuid.uuid4().hex}"


def _environment(words: Mapping[str, str], access: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """That of the command: ours, without a proxy to this machine, and what it is told."""
    told = {f"TOOLGATE_KIT_{name.upper()}": value for name, value in words.items()}
    told["TOOLGATE_KIT_AUTHORIZATION"] = json.dumps(access)
    told["TOOLGATE_KIT_SECRETS"] = json.dumps(secrets)
    for name in ("no_proxy", "NO_PROXY"):
        told[name] = ",".join(filter(None, (os.environ.get(name), LOCAL)))
    return dict(os.environ) | told


async def _run_command(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float
) -> tuple[int | None, str, str]:
    """Runs a program to its end; exit code, output and error output. Nothing of its process group is left."""
    # Pipes of our own: with those of asyncio, a process ends only once nobody holds them any more.
    (stdout, stdout_end), (stderr, stderr_end) = await _pipe(), await _pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout_end,
            stderr=stderr_end,
            env=environment,
            start_new_session=True,
        )
    except BaseException:
        stdout.close()
        stderr.close()
        raise
    finally:
        os.close(stdout_end)
        os.close(stderr_end)
    code: int | None = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # who has left the group may still hold the pipes
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(process.wait(), stdout.ended.wait(), stderr.ended.wait())
        stdout.close()
        stderr.close()
    return code, stdout.text, stderr.text


class _Output(asyncio.Protocol):
    """Reads what comes through a pipe, and keeps what is within the limit."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._transport: asyncio.BaseTransport | None = None
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._kept += data[: MAX_OUTPUT_BYTES - len(self._kept)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


async def _pipe() -> tuple[_Output, int]:
    """A pipe that is read, and the descriptor of its other end."""
    reading, writing = os.pipe()
    output = _Output()
    await asyncio.get_running_loop().connect_read_pipe(lambda: output, os.fdopen(reading, "rb", 0))
    return output, writing
