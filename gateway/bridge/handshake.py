"""What a server on standard input and output speaks, and the handshake of those that want one.

Servers of the modern revision answer `server/discover`; for others the question is an error, silence, or the end of
their process, which is why it is put to a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from gateway import __version__
from gateway.bridge.program import Program
from gateway.bridge.relay import BusyError, PendingRequest, RequestRelay
from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.protocols.mcp.wire import (
    CAPABILITIES_MEMBER,
    CLIENT_MEMBER,
    LEGACY,
    MODERN,
    PARAMS,
    UNSUPPORTED_VERSION,
    VERSION_MEMBER,
)

log = logging.getLogger("gateway.bridge")

Era = Literal["legacy", "modern"]

PROBE_S = 10.0  # a server of the modern revision answers as soon as it runs
INITIALIZE_S = 60.0  # programs that are fetched first, as by npx, take that long
CLIENT = {"name": "toolgate-bridge", "version": __version__}


class HandshakeError(Exception):
    """The server does not speak MCP as it should; the message is one sentence for the operator."""


class Ready(Struct, frozen=True):
    """A server that may be asked."""

    version: str
    initialize_result: JsonObject | None = None  # None for a modern server, which wants no `initialize`


async def find_era(command: Sequence[str]) -> Era:
    """Asks a process of its own. Raises StartError."""
    program = await Program.start(command)
    relay = RequestRelay(program, set())
    reading = asyncio.create_task(program.run(relay.receive))
    reading.add_done_callback(lambda _: relay.end())
    about = {VERSION_MEMBER: MODERN, CAPABILITIES_MEMBER: {}, CLIENT_MEMBER: CLIENT}
    try:
        async with asyncio.timeout(PROBE_S):
            response = await _response(await relay.ask(0, "server/discover", {"_meta": about}))
    except (TimeoutError, BusyError):
        return "legacy"
    finally:
        await program.end()
        reading.cancel()
        await asyncio.wait([reading])
    return "modern" if MODERN in _versions(response) else "legacy"


def _versions(response: JsonObject) -> list[Json]:
    """The revisions that an answer to the probe names."""
    error = response.get("error")
    if isinstance(error, dict) and error.get("code") == UNSUPPORTED_VERSION and isinstance(error.get("data"), dict):
        versions = error["data"].get("supported")
    else:
        result = response.get("result")
        versions = result.get("supportedVersions") if isinstance(result, dict) else None
    return versions if isinstance(versions, list) else []


async def begin(relay: RequestRelay, era: Era) -> Ready:
    """Makes a server ready. Raises HandshakeError."""
    if era == "modern":
        return Ready(MODERN)
    try:
        async with asyncio.timeout(INITIALIZE_S):
            for version in LEGACY:
                offered = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
                response = await _response(await relay.ask(0, "initialize", offered))
                initialize_result = response.get("result")
                if isinstance(initialize_result, dict) and isinstance(initialize_result.get("protocolVersion"), str):
                    relay.notify("notifications/initialized", None)
                    return Ready(initialize_result["protocolVersion"], initialize_result)
                error = response.get("error")
                if not (isinstance(error, dict) and error.get("code") == PARAMS):  # it may know an older one only
                    break
    except TimeoutError:
        raise HandshakeError(f"It has not answered initialize within {INITIALIZE_S:.0f} s.") from None
    except BusyError:
        raise HandshakeError("It has ended.") from None
    raise HandshakeError("It has refused initialize.")


async def _response(pending: PendingRequest) -> JsonObject:
    while not (reply := await pending.replies.get()).is_last:
        pass
    try:
        response = jsontext.decode(reply.message)
    except jsontext.JsonError:
        return {}
    assert isinstance(response, dict)  # the envelope is ours
    return response
