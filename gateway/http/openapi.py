"""The description of our public surface for machines: `GET /openapi.json`, OpenAPI 3.1.1.

`components.json` has what is said of each operation and all that operations refer to. It says what this gateway sends:
that is narrower than what OTC 1.0, OXP 1.0 and the RFC allow. Here it is put together by the table of routes. The bare
paths take every dialect, so their bodies are `anyOf`; below a prefix a path speaks one dialect alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

from gateway.core.jsontext import decode, encode
from gateway.core.model import JsonObject
from gateway.http.routes import ROUTES
from gateway.protocols.otc.surface import CALLS, OtcSurface
from gateway.settings import AuthSettings


class _DialectSchemas(NamedTuple):
    """One dialect: the schemas of what it takes and gives."""

    title: str
    request: str
    result: str
    tools: str


FORMS = {
    "rfc": _DialectSchemas("the OTC RFC", "RfcCall", "RfcResult", "RfcTools"),
    "otc": _DialectSchemas("OTC 1.0", "OtcCall", "EnvelopedResult", "OtcTools"),
    "oxp": _DialectSchemas("OXP 1.0, flat", "Call", "Result", "OxpTools"),
    "oxp-env": _DialectSchemas("OXP 1.0, enveloped", "OxpEnvelopedCall", "EnvelopedResult", "OxpEnvelopedTools"),
    "lc": _DialectSchemas("the LangChain form", "LcCall", "LcResult", "LcTools"),
}
BY_TOKEN, BY_KEY = ("bearer",), ("oxp_key", "otc_key")
VERSION = "OXP-Version"  # the header in which flat OXP alone carries its version


def credentials_for(auth: AuthSettings | None) -> tuple[str, ...]:
    """The names of the security schemes; keys may come as bearer tokens, too."""
    if auth is None:
        return ()
    return (*BY_TOKEN, *(BY_KEY if auth.api_keys else ()))


def document(version: str, public_url: str | None, credentials: Iterable[str] = (*BY_TOKEN, *BY_KEY)) -> bytes:
    """Builds the document from the table of routes and the endpoints of the REST surface.

    `version` is the gateway's own, `public_url` where callers reach it, `credentials` the names of those of which they
    need one.
    """
    components = decode((files("gateway.http") / "components.json").read_bytes())
    operations, schemes = components.pop("operations"), components.pop("securitySchemes")
    paths: dict[str, JsonObject] = {}
    for route in ROUTES:
        if route.operation in operations:
            for dialect, path in route.paths().items():
                paths[path] = _described(operations[route.operation], dialect)
    for path, endpoint in OtcSurface().endpoints.items():
        paths[path] = _described(operations[endpoint.operation], endpoint.dialect)
        if endpoint.route == CALLS[1]:
            paths[path]["post"]["operationId"] = paths[path]["post"]["operationId"].removesuffix("_tool")
            paths[path]["post"]["summary"] += ", at the path of the examples"
    body: JsonObject = {
        "openapi": "3.1.1",
        "info": {"title": "Toolgate", "version": version, "summary": "One HTTP surface for a fleet of tool servers."},
        "paths": paths,
        "components": {"securitySchemes": {name: schemes[name] for name in credentials}, **components},
        "security": [{name: []} for name in credentials],
    }
    if public_url is not None:
        body["servers"] = [{"url": public_url}]
    return encode(body)


def _described(methods: JsonObject, dialect: str | None) -> JsonObject:
    """What is said of a path in one dialect, or in all of them."""
    forms = list(FORMS.values()) if dialect is None else [FORMS[dialect]]
    words = {
        "{name}": "" if dialect is None else f"{dialect.replace('-', '_')}_",
        "{wording}": "in the dialect of the request" if dialect is None else f"in {forms[0].title}",
        "{in_form}": "" if dialect is None else f", in {forms[0].title}",
        '{"forms":"request"}': _any_of(form.request for form in forms),
        '{"forms":"result"}': _any_of(form.result for form in forms),
        '{"forms":"tools"}': _any_of(form.tools for form in forms),
    }
    text = encode(methods).decode()
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    described: JsonObject = decode(text.encode())
    if FORMS["oxp"] not in forms:
        for operation in described.values():
            _leave_version_out(operation)
    return described


def _any_of(names: Iterable[str]) -> str:
    """A schema of any of these, as JSON. They overlap (an LC result may be a flat one), hence no oneOf."""
    schemas = [{"$ref": f"#/components/schemas/{name}"} for name in dict.fromkeys(names)]
    return encode(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}).decode()


def _leave_version_out(operation: JsonObject) -> None:
    if "parameters" in operation:  # answers about the gateway itself carry the version in every dialect
        operation["parameters"] = [parameter for parameter in operation["parameters"] if parameter["name"] != VERSION]
        for response in operation["responses"].values():
            response.get("headers", {}).pop(VERSION, None)
