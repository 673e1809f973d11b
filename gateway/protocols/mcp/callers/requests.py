"""What all requests of MCP have in common: their revision, their id, and what modern ones repeat in headers."""

from __future__ import annotations

from msgspec import Struct

from gateway.core.model import Json, JsonObject
from gateway.core.wire import Head
from gateway.protocols.mcp.callers.answers import RpcError
from gateway.protocols.mcp.callers.session_ids import Session
from gateway.protocols.mcp.wire import (
    ASSUMED,
    CAPABILITIES_MEMBER,
    HEADER_MISMATCH,
    LEGACY,
    METHOD,
    MODERN,
    NAME,
    NAMED_BY,
    PARAMS,
    ROUTING,
    UNSUPPORTED_VERSION,
    VERSION,
    VERSION_MEMBER,
    header_text,
)

MAX_ID = 256  # characters
MAX_VERSION = 64  # characters of one that is not known, which goes back
MODERN_TEXT = MODERN.encode()


class RpcMessage(Struct, frozen=True):
    """A request as JSON-RPC has it. `version` is the revision that it is answered in.

    `owner`: whose session it may be in (`owner_of`). `can_get_scopes`: its caller can act on being told that scopes are
    missing.
    """

    id: Json
    method: str
    params: JsonObject
    version: str
    owner: str
    session: Session | None = None
    can_get_scopes: bool = False


def needs_no_answer(document: JsonObject, version: str) -> bool:
    """Whether a message is a notification, or a response to nothing that we asked, which modern callers never send."""
    method = document.get("method")
    if method is None:
        return version != MODERN and ("result" in document or "error" in document)
    return "id" not in document and isinstance(method, str) and method.startswith("notifications/")


def is_id(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return isinstance(value, int) and not isinstance(value, bool)


def version_of_head(head: Head) -> str:
    version = head.headers.get(VERSION)
    if version == MODERN_TEXT:
        return MODERN
    if version is None:
        return ASSUMED
    text = version.decode("latin-1").strip()
    return text if text in LEGACY else MODERN


def version_of(head: Head, meta: Json) -> str:
    """The revision that a request is answered in; that of one which names none we know is the modern one."""
    named = meta.get(VERSION_MEMBER) if isinstance(meta, dict) else None
    version = version_of_head(head)
    return MODERN if named == MODERN or (named is not None and VERSION not in head.headers) else version


def _is_text(value: bytes | None, text: Json) -> bool:
    """Whether a header says a text as it is, but for spaces around it."""
    if value is None or not isinstance(text, str):
        return False
    return value == text.encode() or value.strip().decode("latin-1") == text


def check_modern(head: Head, method: str, params: JsonObject, meta: Json) -> None:
    """Checks what every modern request carries, in the order of refusals (2026-07-28, Transports). Raises RpcError."""
    meta = meta if isinstance(meta, dict) else {}
    named = meta.get(VERSION_MEMBER)
    if not isinstance(named, str):
        raise (
            _lacks(VERSION_MEMBER)
            if named is not None
            else _no_revision(head.headers.get(VERSION, MODERN_TEXT).strip())
        )
    if not isinstance(meta.get(CAPABILITIES_MEMBER), dict):
        raise _lacks(CAPABILITIES_MEMBER)
    for repeated in ROUTING if head.lines else ():
        if sum(name == repeated for name, _ in head.lines) > 1:
            raise RpcError(HEADER_MISMATCH, f"The header {repeated.decode()} is repeated.")
    if not _is_text(head.headers.get(VERSION), named):
        raise RpcError(HEADER_MISMATCH, "MCP-Protocol-Version is not the version in params._meta.")
    if not _is_text(head.headers.get(METHOD), method):
        raise RpcError(HEADER_MISMATCH, "Mcp-Method is not the method of the body.")
    if method in NAMED_BY:
        value = head.headers.get(NAME)
        if value is None or header_text(value) != params.get(NAMED_BY[method]):
            raise RpcError(HEADER_MISMATCH, f"Mcp-Name is not params.{NAMED_BY[method]} of the body.")
    if named != MODERN:
        raise _unsupported(named)


def _no_revision(version: bytes) -> RpcError:
    """What is wrong with a request without a revision in its `_meta`: perhaps the header of a legacy one."""
    if b"," in version:
        return RpcError(HEADER_MISMATCH, f"The header {VERSION.decode()} is repeated.")
    return _lacks(VERSION_MEMBER) if version == MODERN_TEXT else _unsupported(version.decode("latin-1"))


def _unsupported(version: str) -> RpcError:
    """`supported` names what needs no `initialize` (2026-07-28, Versioning)."""
    others = ", ".join(LEGACY)
    message = (
        f"Unsupported protocol version {version[:MAX_VERSION]!r}. Supported are {MODERN} and, by initialize, {others}."
    )
    return RpcError(UNSUPPORTED_VERSION, message, data={"supported": [MODERN], "requested": version[:MAX_VERSION]})


def _lacks(member: str) -> RpcError:
    return RpcError(PARAMS, f"params._meta lacks {member}.")
