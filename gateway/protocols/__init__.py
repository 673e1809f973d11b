"""The protocols that tool servers speak: a folder for each, which no other imports, and the table of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

OF_RESULTS = frozenset({"secrets", "context", "authorization_urls"})  # keys for servers that answer in one exchange


class Specification(NamedTuple):
    """Where a protocol is written down, and how descriptions of settings name it: "OTC (Open Tool Calling)"."""

    abbreviation: str
    name: str
    url: str


class Protocol(NamedTuple):
    """What there is of one protocol.

    Classes are named as "module:class" and modules by their name, because a process imports only those that it needs.
    """

    settings: str  # the section of a backend in the file
    backend: str  # made of a name, such a section and a BackendContext
    drafter: str | None  # the module whose `draft` asks a server for what `toolgate init` writes
    specification: Specification | None = None
    api_key_header: bytes | None = None  # None: it has no header for keys
    forms: Mapping[str, str] = {}  # the titles of its forms, by the words of `dialect`
    route_keys: frozenset[str] = OF_RESULTS  # of the keys of routes that only some protocols heed, those it heeds

    def settings_class(self) -> Any:
        return _named(self.settings)

    def backend_class(self) -> Any:
        return _named(self.backend)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"gateway.protocols.{module}"), name)


PROTOCOLS: Mapping[str, Protocol] = {
    "otc": Protocol(
        "otc.settings:OtcBackendSettings",
        "otc.backend:HttpBackend",
        "gateway.cli.drafting.rest",
        Specification("OTC", "Open Tool Calling", "https://github.com/OpenToolCalling/Specification"),
        b"otc-api-key",
        {"rfc": "the OTC RFC", "otc": "OTC 1.0", "lc": "the LangChain form of OTC"},
    ),
    "oxp": Protocol(
        "otc.settings:OxpBackendSettings",
        "otc.backend:HttpBackend",
        "gateway.cli.drafting.rest",
        Specification("OXP", "Open eXecution Protocol", "https://github.com/OpenExecProtocol/Specification"),
        b"oxp-api-key",
        {"oxp": "OXP 1.0, flat", "oxp-env": "OXP 1.0, enveloped"},
    ),
    "mcp": Protocol(
        "mcp.settings:McpBackendSettings",
        "mcp.servers.backend:McpBackend",
        "gateway.cli.drafting.mcp",
        Specification("MCP", "Model Context Protocol", "https://modelcontextprotocol.io/specification"),
    ),
    "callback": Protocol(
        "rap.settings:CallbackBackendSettings",
        "rap.backend:CallbackBackend",
        "gateway.cli.drafting.callback",
        Specification("RAP", "Reactive Agent Protocol", "https://infinity.hydro.run/docs/rap/spec/overview"),
        route_keys=frozenset({"on_timeout", "decode", "failure_patterns"}),
    ),
    "openapi": Protocol(
        "openapi.settings:OpenApiBackendSettings", "openapi.backend:OpenApiBackend", "gateway.cli.drafting.openapi"
    ),
    "rcrt": Protocol(
        "rcrt.settings:RcrtBackendSettings",
        "rcrt.backend:RcrtBackend",
        "gateway.cli.drafting.rcrt",
        Specification("RCRT", "Right Context, Right Time", "https://github.com/Ai-Layer-Labs/lightforge"),
        route_keys=frozenset({"on_timeout", "config_ids"}),
    ),
}
