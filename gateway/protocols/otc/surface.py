"""The surface of OTC and OXP: which paths it has, which dialect a request is in, and how it is opened.

A dialect is recognised by prefix, by head, by the shape of the body, in this order of authority.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.encoders import Encoder
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import Json, JsonObject
from gateway.core.ports import Caller
from gateway.core.surfaces import Endpoint, Opened, OpenedCall, OpenedList, RefusedOpening
from gateway.core.wire import Head, WireReply
from gateway.protocols.common import fields
from gateway.protocols.otc import dialect as rest
from gateway.protocols.otc.dialect import RestDialect
from gateway.protocols.otc.lc import Lc
from gateway.protocols.otc.otc import Otc, Rfc
from gateway.protocols.otc.oxp import OxpEnveloped, OxpFlat

RFC, OTC, OXP, OXP_ENV, LC = Rfc(), Otc(), OxpFlat(), OxpEnveloped(), Lc()
DIALECTS: dict[str, RestDialect] = {dialect.name: dialect for dialect in (RFC, OTC, OXP, OXP_ENV, LC)}

LC_AGENTS = (b"universal-tool-sdk-py/", b"langchain-tool-sdk-py/")
OXP_AGENTS = (b"Oxp/",)
BY_SCHEMA: dict[str, RestDialect] = {rest.OTC_SCHEMA: OTC, rest.RFC_SCHEMA: RFC, rest.OXP_SCHEMA: OXP_ENV}
BOUND: dict[tuple[str, str], RestDialect] = {
    (name, version): type(dialect)(version) for name, dialect in DIALECTS.items() for version in dialect.wire_versions
}

LIST = "/tools"
CALLS = ("/tools/call", "/call")
MAX_LIST_BODY = 16 * 1024  # OTC allows a body on GET /tools; it holds one short member

JSON_TYPE = b"application/json"


def by_head(head: Head) -> RestDialect | None:
    """The dialect by the head alone; None on a bare path without a hint."""
    if head.dialect is not None:
        return DIALECTS[head.dialect]
    agent = head.headers.get(b"user-agent", b"")
    is_lc = agent.startswith(LC_AGENTS)
    if is_lc and head.method == "POST":  # of a call the program's name decides, of a list the version header
        return LC
    if rest.HEADER in head.headers:
        return OXP
    if is_lc:
        return LC
    if head.method != "POST" and agent.startswith(OXP_AGENTS):
        return OXP_ENV
    return None


def of_call(head: Head, document: JsonObject) -> RestDialect:
    """The dialect of a call. Raises INVALID_REQUEST when the body has the shape of none, or of two."""
    if head.dialect is not None:
        return DIALECTS[head.dialect]
    if head.headers.get(b"user-agent", b"").startswith(LC_AGENTS):
        return LC
    if "request" not in document:
        if "tool_id" in document:
            return OXP
        raise fields.invalid("The body is not a call: it has neither 'request' nor 'tool_id' at its top level.")
    if "tool_id" in document:
        raise fields.invalid("A call has 'request' or 'tool_id' at its top level, not both.")
    return _by_schema(document) or (RFC if head.path == "/call" else OTC)


def of_list(head: Head, document: Json) -> RestDialect:
    """The dialect of a list; `document` is the body OTC allows on a GET, or None."""
    if head.dialect is not None:
        return DIALECTS[head.dialect]
    if rest.HEADER in head.headers:
        return OXP
    return _by_schema(document) or by_head(head) or OTC


def _by_schema(document: Json) -> RestDialect | None:
    """The dialect that `$schema` names. OXP's pages still print the OpenToolCalling address; it counts as OTC."""
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


def of_server(document: Json, *, has_version: bool, lists_rfc: bool) -> RestDialect:
    """The dialect of a tool server by its list, of which `document` has all but the tools.

    `has_version`: it came with OXP-Version. `lists_rfc`: one of the tools has the form of the RFC.
    """
    if has_version:  # only flat OXP has it, whatever its list looks like
        return OXP
    if isinstance(document, list):
        return LC
    named = _by_schema(document)
    if named is OXP_ENV or document["items"] is not None:
        return OXP_ENV  # OXP's own pages print `tools`, and its servers know no other version
    return RFC if named is RFC or lists_rfc else OTC


EITHER_OXP = "oxp or oxp-env"  # the dialect of a tool server while it is not known which


def shows_form(document: Json, *, has_version: bool) -> bool:
    """Whether a list tells flat and enveloped OXP apart; arguments as in `of_server`."""
    return has_version or isinstance(document, list) or document["items"] is None or _by_schema(document) is not None


def is_rfc(entry: Json) -> bool:
    """Whether a listed tool has members that only the RFC gives it."""
    if not isinstance(entry, dict):
        return False
    inputs = entry.get("input")
    return isinstance(entry.get("toolkit"), dict) or (isinstance(inputs, dict) and "parameters" in inputs)


def _endpoints(dialect: str | None) -> dict[str, Endpoint]:
    """The paths below the prefix of a dialect, or the bare ones, where it is recognised."""
    prefix = "" if dialect is None else f"/{dialect}"
    listing = Endpoint(
        route=LIST,
        methods=("GET", "HEAD"),
        operation="list",
        dialect=dialect,
        max_body_bytes=MAX_LIST_BODY,
        needs_document=False,
    )
    calls = [Endpoint(route=path, methods=("POST",), operation="call", dialect=dialect) for path in CALLS]
    return {prefix + endpoint.route: endpoint for endpoint in (listing, *calls)}


class OtcSurface:
    """OTC, OXP, the RFC and the LangChain family; `surfaces.Surface`."""

    def __init__(self) -> None:
        self.dialects = frozenset(DIALECTS)
        self.endpoints = {path: it for dialect in (None, *DIALECTS) for path, it in _endpoints(dialect).items()}
        self.encoders: Mapping[tuple[str, str], Encoder] = BOUND
        self.argument_members = (b"input", b"inputs")

    def check_head(self, head: Head) -> None:
        """Raises UNSUPPORTED_MEDIA for a call whose body is not plain JSON."""
        if head.path == LIST:
            return
        media = head.headers.get(b"content-type", b"")
        if media != JSON_TYPE and not fields.is_json(media):
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's content type must be application/json.")
        if b"content-encoding" in head.headers and head.headers[b"content-encoding"].lower() != b"identity":
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's body must not be compressed.")

    def open(self, head: Head, document: Json, caller: Caller) -> Opened:
        is_list = head.path == LIST
        if not is_list and not isinstance(document, dict):
            raise fields.invalid("The body must be a JSON object.")
        dialect = of_list(head, document) if is_list else of_call(head, document)
        bound = dialect
        try:
            bound = BOUND[dialect.name, dialect.negotiate(head, document)]
            return OpenedList(bound) if is_list else OpenedCall(bound, bound.decode_call(document))
        except GatewayError as error:
            return RefusedOpening(bound, error)

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        """A refusal in the dialect of the head, else `{message, code}`, which is valid in all of them."""
        dialect = by_head(head)
        if dialect is None:
            return fields.error_reply(error)
        version = head.headers.get(rest.HEADER)
        if dialect is OXP and version in rest.HEADER_VERSIONS:
            return BOUND[dialect.name, version.decode("ascii")].encode_error(error)
        return dialect.encode_error(error)


REST = OtcSurface()
