"""The surface of OTC and OXP: which paths it has, and how a request to one of them is opened."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.dialects import fields, recognise, versions
from gateway.dialects.recognise import DIALECTS, OXP
from gateway.dialects.rest import RestDialect
from gateway.errors import ErrorCode, GatewayError
from gateway.model import Json
from gateway.ports import Encoder, Endpoint, Opened, OpenedCall, OpenedList, RefusedOpening
from gateway.wire import Head, WireReply

LIST = "/tools"
CALLS = ("/tools/call", "/call")
MAX_LIST_BODY = 16 * 1024  # OTC allows a body on GET /tools; it holds one short member

JSON_TYPE = b"application/json"
CHARSETS = (b"utf-8", b"utf8", b"us-ascii")

BOUND: dict[tuple[str, str], RestDialect] = {
    (name, version): type(dialect)(version) for name, dialect in DIALECTS.items() for version in dialect.wire_versions
}


def _endpoints(dialect: str | None) -> dict[str, Endpoint]:
    """Those below the prefix of a dialect, or the bare ones, where it is recognised."""
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


class RestSurface:
    """OTC, OXP, the RFC and the LangChain family; `ports.Surface`."""

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
        if media != JSON_TYPE and not _is_json(media):
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's content type must be application/json.")
        if b"content-encoding" in head.headers and head.headers[b"content-encoding"].lower() != b"identity":
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's body must not be compressed.")

    def open(self, head: Head, document: Json) -> Opened:
        is_list = head.path == LIST
        if is_list:
            dialect = recognise.of_list(head, document)
        else:
            dialect = recognise.of_call(head, fields.object_(document, "The body"))
        bound = dialect
        try:
            bound = BOUND[dialect.name, dialect.negotiate(head, document)]
            return OpenedList(bound) if is_list else OpenedCall(bound, bound.decode_call(document))
        except GatewayError as error:
            return RefusedOpening(bound, error)

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        """A refusal in the dialect that the head tells, else `{message, code}`, which is valid in all of them."""
        dialect = recognise.by_head(head)
        if dialect is None:
            return fields.error_reply(error)
        version = head.headers.get(versions.HEADER)
        if dialect is OXP and version in versions.HEADER_VERSIONS:
            return BOUND[dialect.name, version.decode("ascii")].encode_error(error)
        return dialect.encode_error(error)


def _is_json(media: bytes) -> bool:
    kind, *parameters = media.lower().split(b";")
    charsets = [item.strip().removeprefix(b"charset=").strip(b'"') for item in parameters if b"charset=" in item]
    return kind.strip() == JSON_TYPE and all(charset in CHARSETS for charset in charsets)


REST = RestSurface()
