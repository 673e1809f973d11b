"""A callback backend in front of a tool server on a real socket, and a recorder of its calls' outcomes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.core.errors import ErrorCode
from gateway.core.model import SINGLE_CALL_GROUP, CallKey, Invocation, JsonObject, ToolDefinition, ToolResult
from gateway.http.edge import CALLBACK_REFUSALS
from gateway.offload import ChildTasks
from gateway.protocols.rap.backend import CallbackBackend
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server as Place
from tests.unit.net.client.scripted import Peer, Script, Server, serving
from tests.unit.upstream.admitting import admission, context_of, settings_of
from tests.unit.upstream.facing import reply

KEY, CALL_ID, GROUP = CallKey("1"), "tg-1", "grp-1"
LONE = SINGLE_CALL_GROUP + "grp-2"  # the group of a call that belongs to no conversation
CALLBACK_URL = "http://127.0.0.1:9/callbacks/token"
DEFINITION = ToolDefinition(
    tool="builds.lint",
    version="1.0.0",
    name="builds_lint",
    description="",
    input_schema={},
    output_schema={},
    remote_id="lint",
)
INVOCATION = Invocation(call_id=CALL_ID, key=KEY, tool=DEFINITION, arguments={"n": 1}, timeout_s=5.0, group=GROUP)
TOOL = {"name": "lint", "description": "Lints.", "inputSchema": {"type": "object"}}
OK = reply(200, b"")


class Ends:
    """The outcomes of calls; as everywhere, the first one counts. `ended` calls are over from the start."""

    def __init__(self, *ended: CallKey) -> None:
        self.results: dict[CallKey, ToolResult | None] = dict.fromkeys(ended)
        self.challenges: list[tuple[CallKey, JsonObject]] = []

    async def settle(self, key: CallKey, result: ToolResult) -> bool:
        return self.results.setdefault(key, result) is result

    async def has_ended_with(self, key: CallKey, result: ToolResult) -> bool:
        return self.results.get(key) == result

    async def is_open(self, key: CallKey, run: str) -> bool:
        raise AssertionError("outcomes that come by themselves are not looked for")

    async def challenge(self, key: CallKey, challenge: JsonObject) -> bool:
        if key in self.results:
            return False
        self.challenges.append((key, challenge))
        return True


class Toolset:
    """A tool server that lists one tool, and answers whatever else is posted with `acknowledgement`.

    `noted` holds path and body of every post. `endpoint` may be anything; by default it is a path of the server.
    """

    def __init__(self, acknowledgement: bytes | Script = OK, endpoint: str | None = None) -> None:
        self.acknowledgement = acknowledgement
        self.endpoint = endpoint
        self.manifest: bytes | None = None
        self.noted: list[tuple[str, Any]] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            head, _, body = (await peer.request()).partition(b"\r\n\r\n")
            method, path, _ = head.decode().split(" ", 2)
            if method == "GET":
                await peer.send(self.manifest or self._manifest(head))
                continue
            self.noted.append((path, json.loads(body)))
            if isinstance(self.acknowledgement, bytes):
                await peer.send(self.acknowledgement)
            else:
                await self.acknowledgement(peer)

    def _manifest(self, head: bytes) -> bytes:
        host = head.lower().partition(b"host: ")[2].partition(b"\r\n")[0].decode()
        endpoint = f"http://{host}/invoke" if self.endpoint is None else self.endpoint
        return reply(200, {"name": "builds", "endpoint": endpoint, "tools": [TOOL]})


@dataclass
class Facing:
    """All that a test needs of one backend and its surroundings."""

    backend: CallbackBackend
    way_in: Admission[Place]
    server: Server
    ends: Ends
    changes: list[str]

    async def receive(
        self, message: object, content_type: str | None = "application/json", *, group: str = GROUP, **how: Any
    ) -> int:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return status_of(await self.backend.receiver.receive(KEY, group, body, content_type, **how))


@asynccontextmanager
async def facing(
    script: Script,
    path: str = "",
    *,
    ends: Ends | None = None,
    listed: bool = True,
    allowed: Sequence[str] = (),
    token: str | None = None,
    count_dropped: Callable[[], None] = lambda: None,
    **limits: Any,
) -> AsyncIterator[Facing]:
    """A backend in front of a tool server that follows a script; unless told otherwise it knows its toolset."""
    async with serving(script) as server:
        ends, changes = ends or Ends(), list[str]()
        url = server.url + path
        auth = token and {"bearer": token}
        settings = settings_of(
            "callback", url, allowed_origins=list(allowed), auth=auth, max_response="4KiB", connect_timeout="1s"
        )
        way_in = admission(url, **limits)
        context = context_of(
            way_in,
            outcomes=ends,
            offload=ChildTasks(),
            on_change=lambda: changes.append("builds"),
            count_dropped=count_dropped,
        )
        async with aclosing(CallbackBackend("builds", settings, context)) as backend:
            if listed:
                await backend.list_tools()
            yield Facing(backend, way_in, server, ends, changes)


def status_of(refused: ErrorCode | None) -> int:
    """The status that a callback is answered with."""
    return 200 if refused is None else CALLBACK_REFUSALS[refused][0]


def message(kind: str, **members: Any) -> JsonObject:
    return {"type": kind, "group_id": GROUP, "id": CALL_ID, "call_id": None, **members}
