"""What `toolgate check --live` finds out: Redis and every tool server asked, every tool accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from gateway.app import Gateway
from gateway.assembly import parts
from gateway.catalogue.catalogue import BackendStatus
from gateway.cli.output import count
from gateway.errors import GatewayError
from gateway.model import JsonObject, Listing
from gateway.ports import Backend
from gateway.routing import PublishedTool
from gateway.settings import Config
from gateway.state.inspection import look_at

SECOND_LOOK_S = 10.0  # as long as the catalogue gives the first
LONG_DESCRIPTION = 1024  # characters; the tool interfaces of common models cut off there
MAX_NAMED = 20  # tools without a route in one line


async def inspect(config: Config) -> JsonObject:
    """Asks Redis and every backend; describes `state`, `backends` by name and the `tools` that would be published."""
    gateway = Gateway(config)
    # The catalogue alone: a gateway that starts as a whole takes over the calls of replicas that died.
    await gateway.catalogue.start()
    try:
        state, _ = await asyncio.gather(_look_at_state(config), gateway.catalogue.wait_ready())
        looks = await asyncio.gather(*map(_look, gateway.backends.values()))
        published = gateway.catalogue.router.tools
        return {
            "state": state,
            "backends": {
                name: {"protocol": config.backends[name].protocol, "dialect": gateway.backends[name].dialect}
                | _backend(gateway.catalogue.status(name), look, published)
                for name, look in zip(gateway.backends, looks, strict=True)
            },
            "tools": [_tool(tool) for tool in published],
        }
    finally:
        await gateway.aclose()


async def _look_at_state(config: Config) -> JsonObject:
    """Where calls would be kept, without what it takes to get in; `cause` if it cannot be used."""
    address = None if config.state is None else config.state.address
    if config.state is None or address is None:
        return {"kept_in": "memory", "up": True, "cause": None, "version": None, "warnings": []}
    async with parts.redis(config.state, address) as redis:
        found = await look_at(redis)
    return {
        "kept_in": repr(address),
        "up": found.cause is None,
        "cause": found.cause,
        "version": found.version,
        "warnings": list(found.warnings),
    }


async def _look(backend: Backend) -> Listing | str:
    """Asks once more, because the catalogue keeps neither a cause nor what no route publishes."""
    try:
        async with asyncio.timeout(SECOND_LOOK_S):
            return await backend.list_tools()
    except GatewayError as exc:
        return exc.detail or exc.message
    except TimeoutError:
        return f"no list of tools within {SECOND_LOOK_S:g} s"


def _backend(status: BackendStatus, look: Listing | str, published: Sequence[PublishedTool]) -> JsonObject:
    cause = look if isinstance(look, str) else "it did not answer at first" if not status.up else None
    known = {tool.definition.id for tool in published} | {one.id for one in status.rejected}
    listed = () if isinstance(look, str) else look.tools
    return {
        "up": status.up and cause is None,
        "cause": cause,
        "tools": status.tools,
        "rejected": [{"id": one.id, "reason": one.reason} for one in status.rejected],
        "unrouted": sorted({tool.id for tool in listed} - known),
    }


def _tool(tool: PublishedTool) -> JsonObject:
    definition = tool.definition
    return {
        "id": definition.id,
        "backend": tool.route.backend_name,
        "scopes": sorted(tool.route.scopes),
        "description": definition.description,
        "remarks": list(_remarks(definition.description)),
    }


def _remarks(description: str) -> Iterator[str]:
    if not description.strip():
        yield "has no description, so no model can know when to use it"
    elif len(description) > LONG_DESCRIPTION:
        yield f"has a description of more than {LONG_DESCRIPTION} characters, which many models do not get to see whole"


def remarks_on(found: JsonObject) -> Iterator[str]:
    """Everything worth a sentence in what `inspect` found, the gravest first."""
    backends = found["backends"].items()
    if not found["state"]["up"]:
        yield f"state is down: {found['state']['cause']}"
    yield from (f"{name} is down: {backend['cause']}" for name, backend in backends if not backend["up"])
    for name, backend in backends:
        yield from (f"{name}: {one['id']} is not published: {one['reason']}" for one in backend["rejected"])
        if unrouted := backend["unrouted"]:
            more = ", ..." if len(unrouted) > MAX_NAMED else ""
            yield f"{name}: no route publishes {count(len(unrouted), 'tool')}: {', '.join(unrouted[:MAX_NAMED])}{more}"
    for tool in found["tools"]:
        yield from (f"{tool['id']} {remark}" for remark in tool["remarks"])
