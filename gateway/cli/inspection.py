"""What `toolgate check --live` finds: asks Redis, the authorization service and every tool server, and matches tools
with routes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from time import monotonic

from msgspec import Struct

from gateway.app import Gateway
from gateway.assembly import factories
from gateway.auth.service import HttpAuthorizer, Unknown
from gateway.catalogue.catalogue import READY_LIMIT_S, BackendStatus, Catalogue
from gateway.catalogue.published import OutputCheck, PublishedTool, Route
from gateway.core.jsontext import decode, encode
from gateway.core.model import JsonObject, Listing, ToolDefinition
from gateway.core.ports import Backend, Reporting
from gateway.schemas import CompiledSchema, SchemaError
from gateway.settings import Config
from gateway.upstream.admission import Admission, Replica
from gateway.upstream.replica_url import Server

BYTES_OF_A_TOKEN = 4  # of English and JSON, about, for models of today


class ListResult(Struct, frozen=True, kw_only=True):
    """The list of one backend, or the cause why there is none, and the time it took."""

    listing: Listing | None
    cause: str | None
    took_s: float


async def inspect(config: Config) -> JsonObject:
    """Asks all of them; describes each, `backends` by name, the `routes`, and the `tools` that are published."""
    gateway = Gateway(config)
    try:  # the catalogue alone: a gateway that starts as a whole takes over the calls of replicas that died
        state, authorization, telemetry, issuers, _ = await asyncio.gather(
            _look_at_state(config),
            _ask(gateway.generation.authorizer),
            _look_at_telemetry(config),
            gateway.issuers(),
            gateway.catalogue.ask_once(),
        )
        backends, admissions = gateway.backends, gateway.generation.admissions.values()
        looks = {name: _look(gateway.catalogue, name) for name in backends}
        answers = dict(zip(backends, await asyncio.gather(*map(_answers, admissions, looks.values())), strict=True))
        routes = factories.routes(config, backends)
        taken = _taken(routes, looks)
        return {
            "state": state,
            "authorization": authorization,
            "telemetry": telemetry,
            "issuers": {name: issuer.as_json() for name, issuer in issuers.items()},
            "backends": {
                name: {"protocol": config.backends[name].protocol, "dialect": backend.dialect}
                | _backend(name, gateway.catalogue.status(name), looks[name], taken, answers[name])
                | {"report": _report(backend)}
                for name, backend in backends.items()
            },
            "routes": _routes(routes, looks, taken),
            "tools": [_tool(tool) for tool in gateway.catalogue.router.tools],
        }
    finally:
        await gateway.aclose()


async def _look_at_state(config: Config) -> JsonObject:
    """Describes the state store, without its credentials; `cause` says why it cannot be used."""
    address = None if config.state is None else config.state.address
    if config.state is None or address is None:
        return {"kept_in": "memory", "up": True, "cause": None, "version": None, "warnings": []}
    findings = await factories.look_at_redis(config.state, address)
    return {
        "kept_in": repr(address),
        "up": findings.cause is None,
        "cause": findings.cause,
        "version": findings.version,
        "warnings": findings.warnings,
    }


async def _look_at_telemetry(config: Config) -> JsonObject | None:
    """Whether the collector takes spans; `cause` says why not."""
    if config.telemetry is None:
        return None
    from gateway.telemetry.export import trouble_with

    cause = await asyncio.to_thread(trouble_with, config.telemetry)
    return {"url": config.telemetry.endpoint, "up": cause is None, "cause": cause}


async def _ask(authorizer: HttpAuthorizer | None) -> JsonObject | None:
    """How the authorization service decides about a call that nobody makes; `cause` says why it does not decide."""
    if authorizer is None:
        return None
    begun = monotonic()
    decision = await authorizer.probe()
    cause = decision.why if isinstance(decision, Unknown) else None
    allowed, reason = (None, "") if isinstance(decision, Unknown) else (decision.allowed, decision.reason)
    took_ms = round((monotonic() - begun) * 1000, 1)
    about = {"service": authorizer.service, "up": cause is None, "cause": cause, "latency_ms": took_ms}
    return about | {"allowed": allowed, "reason": reason}


def _look(catalogue: Catalogue, name: str) -> ListResult:
    listing, took_s = catalogue.listing(name)
    cause = catalogue.status(name).last_error
    if listing is None and cause is None:
        cause = f"no list of tools within {READY_LIMIT_S:g} s"
    return ListResult(listing=listing, cause=cause, took_s=took_s)


async def _answers(admission: Admission[Server], look: ListResult) -> dict[str, str | None]:
    """Why each replica of a tool server does not answer; None if it does. Empty if there is no way to ask.

    A replica that has listed its tools is not asked again. Nor is any if there is no list: each was asked for it.
    """
    check = admission.check
    if check is None or look.listing is None:
        return {}

    async def trouble_with(replica: Replica[Server]) -> str | None:
        return None if replica.has_listed else await check(replica.target)

    troubles = await asyncio.gather(*map(trouble_with, admission.replicas))
    return {replica.name: why for replica, why in zip(admission.replicas, troubles, strict=True)}


Taken = Mapping[tuple[str, str], int]  # by backend and tool id: the number of the first route that speaks of it


def _taken(routes: Sequence[Route], looks: Mapping[str, ListResult]) -> Taken:
    taken = {}
    for name, look in looks.items():
        for tool in _listed(look):
            number = next((n for n, route in enumerate(routes) if _speaks(route, name, tool)), None)
            if number is not None:
                taken[name, tool.id] = number
    return taken


def _speaks(route: Route, backend: str, tool: ToolDefinition) -> bool:
    return route.backend_name == backend and route.matches(tool.tool, tool.version)


def _listed(look: ListResult) -> Sequence[ToolDefinition]:
    return () if look.listing is None else look.listing.tools


def _backend(
    name: str, status: BackendStatus, look: ListResult, taken: Taken, answers: Mapping[str, str | None]
) -> JsonObject:
    cause = look.cause
    silent = {replica: why for replica, why in answers.items() if why is not None}
    if cause is None and silent and len(silent) == len(answers):  # its tools are known from elsewhere
        cause = "; ".join(silent.values())
    return {
        "up": cause is None,
        "cause": cause,
        "silent": silent,
        "latency_ms": None if look.listing is None else round(look.took_s * 1000, 1),
        "tools": status.tools,
        "rejected": [{"id": one.id, "reason": one.reason} for one in status.rejected],
        "unrouted": sorted({tool.id for tool in _listed(look) if (name, tool.id) not in taken}),
    }


def _report(backend: Backend) -> JsonObject | None:
    """What a backend has to say about its list besides; None if that is nothing."""
    report: JsonObject = decode(backend.report) if isinstance(backend, Reporting) else {}
    return report or None


def _routes(routes: Sequence[Route], looks: Mapping[str, ListResult], taken: Taken) -> list[JsonObject]:
    """Every route with the number of tools it takes; None while its backend cannot say."""
    counts = Counter(taken.values())
    return [
        {
            "number": number + 1,
            "tools": route.tools,
            "backend": route.backend_name,
            "deny": route.deny,
            "takes": None if (look := looks[route.backend_name]).listing is None else counts[number],
            "fits": sum(_speaks(route, route.backend_name, tool) for tool in _listed(look)),
        }
        for number, route in enumerate(routes)
    ]


def _tool(tool: PublishedTool) -> JsonObject:
    definition = tool.definition
    return {
        "id": definition.id,
        "backend": tool.route.backend_name,
        "scopes": sorted(tool.route.scopes),
        "description": definition.description,
        "takes_anything": not definition.input_schema,
        "unchecked_output": _unchecked(tool),
        **_size(definition),
    }


def _size(definition: ToolDefinition) -> JsonObject:
    """How much of a model's context a tool takes: its name, its description and the schema of its arguments."""
    texts = (definition.name.encode(), definition.description.encode(), encode(definition.input_schema))
    size = sum(map(len, texts))
    return {
        "remote_id": definition.remote_id,
        "arguments": len(definition.input_schema.get("properties", ())),
        "bytes": size,
        "output_bytes": 0 if definition.output_schema is None else len(encode(definition.output_schema)),
        "tokens": -(-size // BYTES_OF_A_TOKEN),
    }


def _unchecked(tool: PublishedTool) -> str | None:
    """Why the values of a tool cannot be held against the schema it promises."""
    promised = tool.definition.output_schema
    if not promised or tool.route.validate_output is OutputCheck.OFF:
        return None
    try:
        CompiledSchema.compile(promised)
    except SchemaError as exc:
        return exc.reason
    return None
