"""Which dialect a request is in: by prefix, by head, by the shape of its body, in this order of authority."""

from __future__ import annotations

from gateway.dialects import fields, versions
from gateway.dialects.lc import Lc
from gateway.dialects.otc import Otc, Rfc
from gateway.dialects.oxp import OxpEnveloped, OxpFlat
from gateway.dialects.rest import RestDialect
from gateway.model import Json, JsonObject
from gateway.ports import ServerDialect
from gateway.wire import Head, Headers

RFC, OTC, OXP, OXP_ENV, LC = Rfc(), Otc(), OxpFlat(), OxpEnveloped(), Lc()
DIALECTS: dict[str, RestDialect] = {dialect.name: dialect for dialect in (RFC, OTC, OXP, OXP_ENV, LC)}
SERVER_DIALECTS: dict[str, ServerDialect] = {dialect.name: dialect for dialect in (RFC, OTC, OXP, OXP_ENV, LC)}

LC_AGENTS = (b"universal-tool-sdk-py/", b"langchain-tool-sdk-py/")
OXP_AGENTS = (b"Oxp/",)


def by_head(head: Head) -> RestDialect | None:
    """The dialect by the head alone; None on a bare path without a hint."""
    if head.dialect is not None:
        return DIALECTS[head.dialect]
    agent = head.headers.get(b"user-agent", b"")
    is_lc = agent.startswith(LC_AGENTS)
    if is_lc and head.method == "POST":  # of a call the program's name decides, of a list the version header
        return LC
    if versions.HEADER in head.headers:
        return OXP
    if is_lc:
        return LC
    if head.method != "POST" and agent.startswith(OXP_AGENTS):
        return OXP_ENV
    return None


BY_SCHEMA: dict[str, RestDialect] = {
    versions.OTC_SCHEMA: OTC,
    versions.RFC_SCHEMA: RFC,
    versions.OXP_SCHEMA: OXP_ENV,
}


def of_call(head: Head, document: JsonObject) -> RestDialect:
    """The dialect of a call. Raises INVALID_REQUEST when the body has the shape of none, or of two."""
    if head.dialect is not None:
        return DIALECTS[head.dialect]
    if head.headers.get(b"user-agent", b"").startswith(LC_AGENTS):
        return LC
    enveloped, flat = "request" in document, "tool_id" in document
    if enveloped and flat:
        raise fields.invalid("A call has 'request' or 'tool_id' at its top level, not both.")
    if flat:
        return OXP
    if enveloped:
        return _by_schema(document) or (RFC if head.path == "/call" else OTC)
    raise fields.invalid("The body is not a call: it has neither 'request' nor 'tool_id' at its top level.")


def of_list(head: Head, document: Json) -> RestDialect:
    """The dialect of a list; `document` is the body OTC allows on a GET, or None."""
    if head.dialect is not None:
        return DIALECTS[head.dialect]
    if versions.HEADER in head.headers:
        return OXP
    return _by_schema(document) or by_head(head) or OTC


def _by_schema(document: Json) -> RestDialect | None:
    """The dialect a `$schema` names. The OpenToolCalling address was never renamed in OXP's pages; it counts as OTC."""
    schema = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(schema, str):
        return None
    if (exact := BY_SCHEMA.get(schema)) is not None:  # nearly all; the rest are near misses, which are refused later
        return exact
    if schema.startswith("urn:oxp:"):
        return OXP_ENV
    if schema.startswith("https://github.com/ArcadeAI/"):
        return RFC
    return OTC if schema.startswith(("otc://", "https://github.com/OpenToolCalling/")) else None


def of_server(headers: Headers, document: Json) -> ServerDialect:
    """The dialect of a tool server by its catalogue, the one request that is safe to repeat."""
    if any(name == versions.HEADER for name, _ in headers):  # only flat OXP has it, whatever its list looks like
        return OXP
    if isinstance(document, list):
        return LC
    if not isinstance(document, dict):
        return OTC
    named = _by_schema(document)
    if named is OXP_ENV or document.get("items") is not None:
        return OXP_ENV  # OXP's own pages print `tools`, and its servers know no other version
    if named is RFC:
        return RFC
    entries = document.get("tools")
    if isinstance(entries, list) and any(is_rfc(entry) for entry in entries):
        return RFC
    return OTC


def is_rfc(entry: Json) -> bool:
    """Whether a listed tool has members that only the RFC gives it."""
    if not isinstance(entry, dict):
        return False
    inputs = entry.get("input")
    return isinstance(entry.get("toolkit"), dict) or (isinstance(inputs, dict) and "parameters" in inputs)
