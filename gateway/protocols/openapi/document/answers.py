"""What an answer of 200 to 299 is to a caller: JSON, text, bytes or nothing (RFC 9110, section 15.3)."""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes

from msgspec import Raw

from gateway.core import jsontext
from gateway.core.errors import FailureCode
from gateway.core.jsontext import ALWAYS_HERE_BYTES, NEVER_HERE_BYTES
from gateway.core.model import UNKNOWN_BYTES, Json, JsonObject, ToolFailure, ToolResult
from gateway.core.wire import Answer, WireReply
from gateway.protocols.common.replies import MAX_DEPTH, BrokenReplyError, strip_bom
from gateway.protocols.openapi.document import media
from gateway.protocols.openapi.document.media import essence
from gateway.protocols.openapi.document.plan import AnswerPlan
from gateway.protocols.openapi.document.selection import SelectionError, compiled, judged

EMPTY = (204, 205)  # by definition
ESCAPED = 6  # characters that one byte of a text may become in JSON
NEVER_TEXT = b"\0"
# What a HEAD is asked for, where the operator names no headers.
HEAD_HEADERS = ("content-length", "content-type", "etag", "last-modified", "link", "location")
PLACES = (b"content-location", b"link", b"location")  # headers that name our tool server itself
SUCCEEDED = b"[true,"  # as it begins what was judged and stays text
MAX_HEADER = 8192  # characters of one that callers are shown

EXTENDED_NAME = re.compile(r"filename\*\s*=\s*(utf-8|iso-8859-1)'[^']*'([^;\s]+)", re.IGNORECASE)  # RFC 6266, 5
FILE_NAME = re.compile(r'filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]+))', re.IGNORECASE)
NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
MAX_FILE_NAME = 255


def result_of(
    reply: Answer, method: str, plan: AnswerPlan, origins: Sequence[str] = (), document: Json = None
) -> ToolResult:
    """The result in a success. `document` is its JSON if that was read, and selected from, already.

    `origins` are those of the tool server, whose URLs callers see as paths. Raises BrokenReplyError.
    """
    if method == "HEAD":
        shown = headers_of(reply, plan.headers or HEAD_HEADERS, origins)
        return ToolResult(value={"status": reply.status, "headers": shown})
    body = reply.body
    if not body or reply.status in EMPTY:
        result = ToolResult(value=_created(reply, plan, origins), value_bytes=ESCAPED * MAX_HEADER)
    elif (text := json_of(reply, plan)) is not None:
        result = _of_json(reply, text, plan, document)
    else:
        result = _other(reply, plan)
    if not plan.headers or result.failure is not None:
        return result
    return _beside(result, headers_of(reply, plan.headers, origins))


def in_utf8(reply: Answer) -> Answer:
    """An answer of JSON in UTF-8, whatever charset it names; others as they are. Raises BrokenReplyError."""
    content_type = (reply.header(b"content-type") or b"").decode("latin-1")
    charset = media.charset_of(content_type).lower()
    if charset in ("", "utf-8", "utf8") or not reply.body or not media.is_values(essence(content_type)):
        return reply
    if len(reply.body) > NEVER_HERE_BYTES:
        raise BrokenReplyError(f"it is too long to be read from {charset}")
    text = media.decoded(reply.body, content_type)
    if text is None:  # many servers name a charset that they do not use
        return reply
    headers = tuple(pair for pair in reply.headers if pair[0] != b"content-type")
    kind = (b"content-type", essence(content_type).encode("latin-1"))
    return WireReply(status=reply.status, headers=(*headers, kind), body=text.encode("utf-8", "replace"))


def json_of(reply: Answer, plan: AnswerPlan) -> bytes | None:
    """The text of an answer as one JSON value; None if it is no JSON. Lines of values are an array of them."""
    content_type, body = reply.header(b"content-type"), reply.body
    if content_type == b"application/json":
        return strip_bom(body)
    kind = essence(content_type.decode("latin-1")) if content_type is not None else ""
    if media.is_json(kind):
        return strip_bom(body)
    if kind in media.LINES:
        return _array(body.replace(b"\r\n", b"\n"), b"\n")
    if kind == media.SEQUENCE:
        return _array(body, b"\x1e")
    # What names no type, or is called plain text by a server that does not care.
    is_unsaid = not kind and body[:1] in b'{["tfn-0123456789 \t\r\n\xef'
    if (is_unsaid or (kind == "text/plain" and declares_json(plan))) and _is_json(body):
        return strip_bom(body)
    return None


def _array(body: bytes, separator: bytes) -> bytes:
    """The JSON array of values that stand behind or before separators (RFC 7464, or one to a line)."""
    body = strip_bom(body).strip(b" \t\r\n" + separator)
    while separator * 2 in body:
        body = body.replace(separator * 2, separator)
    return b"[%b]" % body.replace(separator, b",")


def _is_json(body: bytes) -> bool:
    if len(body) > ALWAYS_HERE_BYTES:  # it is read elsewhere, perhaps
        return body.lstrip()[:1] in (b"{", b"[")
    try:
        jsontext.decode_answer(strip_bom(body), MAX_DEPTH)
    except jsontext.JsonError:
        return False
    return True


def declares_json(plan: AnswerPlan) -> bool:
    """Whether the document declares JSON for success, and nothing else."""
    return bool(plan.media_types) and all(media.is_json(essence(declared)) for declared in plan.media_types)


def _of_json(reply: Answer, text: bytes, plan: AnswerPlan, document: Json) -> ToolResult:
    """The result in a JSON text: a failure if it does not meet the operator's condition for success."""
    value, size = _value(reply, text, plan, document), _bound(len(text), plan)
    if not plan.success:
        return ToolResult(value=value, value_bytes=size)
    if isinstance(value, Raw):  # that was judged elsewhere
        value = bytes(value)
        if value.startswith(SUCCEEDED):
            return ToolResult(value=Raw(value[len(SUCCEEDED) : -1]), value_bytes=size)
        value = jsontext.decode(value)
    has_succeeded, selection = value
    if has_succeeded:
        return ToolResult(value=selection, value_bytes=size)
    message = selection or f"The answer ({reply.status}) does not say that this has succeeded."
    return ToolResult(failure=ToolFailure(message=message, extras={"status": reply.status}))


def _value(reply: Answer, text: bytes, plan: AnswerPlan, document: Json) -> Json:
    """The value of a JSON text, or what is selected from it and judged."""
    select = judged(plan.success, plan.select) if plan.success else plan.select
    if document is not None and (select or isinstance(document, Raw)):
        return document
    try:
        if document is None:
            if len(text) > ALWAYS_HERE_BYTES and (select or jsontext.is_wide(text)):
                raise BrokenReplyError("it holds too many values")
            document = jsontext.decode_answer(text, MAX_DEPTH)
        return compiled(select)(document) if select else document
    except jsontext.JsonError as exc:
        if len(text) < ESCAPED and not text.strip():
            return [True, None] if plan.success else None  # an empty line
        raise BrokenReplyError(f"status {reply.status}, not JSON: {exc}") from exc
    except SelectionError as exc:
        raise BrokenReplyError(str(exc), f"The answer ({reply.status}) came, but {exc}.") from exc


def _bound(size: int, plan: AnswerPlan) -> int:
    return UNKNOWN_BYTES if plan.select else max(size, len("null"))


def _other(reply: Answer, plan: AnswerPlan) -> ToolResult:
    """A success that is no JSON."""
    content_type = (reply.header(b"content-type") or b"").decode("latin-1")
    kind = essence(content_type)
    if kind == "text/event-stream":
        raise BrokenReplyError("a stream of events")
    if media.is_page(kind) and declares_json(plan):
        raise BrokenReplyError(f"status {reply.status}, {kind} in place of the JSON that is declared")
    body = reply.body
    if media.is_text(kind) or (not kind and NEVER_TEXT not in body):
        if len(body) > NEVER_HERE_BYTES:
            return _too_large(reply, kind)
        text = media.decoded(body, content_type)
        if text is not None:
            return ToolResult(value=text, value_bytes=ESCAPED * len(body) + 2)
    return _bytes(reply, kind, plan)


def _bytes(reply: Answer, kind: str, plan: AnswerPlan) -> ToolResult:
    body = reply.body
    if len(body) > min(plan.max_binary_bytes, NEVER_HERE_BYTES):
        return _too_large(reply, kind)
    kind = kind if media.TYPE.fullmatch(kind) else "application/octet-stream"
    text, name = b2a_base64(body, newline=False).decode("ascii"), file_name(reply)
    value = {"content_type": kind, "base64": text}
    if name:
        value["filename"] = name
    family = kind.partition("/")[0]
    block: JsonObject
    if family in ("image", "audio"):
        block = {"type": family, "data": text, "mimeType": kind}
    else:
        resource = {"uri": f"toolgate:///answers/{quote(name or 'answer', safe='')}", "mimeType": kind, "blob": text}
        block = {"type": "resource", "resource": resource}
    size = len(text) + ESCAPED * (len(name) + len(kind)) + 64
    return ToolResult(value=value, blocks=[block], structured="none", value_bytes=size)


def _too_large(reply: Answer, kind: str) -> ToolResult:
    message = f"The answer is too large: {len(reply.body)} bytes of {kind or 'unknown type'}."
    return ToolResult(failure=ToolFailure(message=message, code=FailureCode.RESULT_TOO_LARGE))


def file_name(reply: Answer) -> str:
    """The name that a server gives a file, without folders; empty if it gives none (RFC 6266)."""
    disposition = (reply.header(b"content-disposition") or b"")[:MAX_HEADER].decode("latin-1")
    if extended := EXTENDED_NAME.search(disposition):
        name = unquote_to_bytes(extended[2]).decode(extended[1], "replace")
    elif plain := FILE_NAME.search(disposition):
        name = re.sub(r"\\(.)", r"\1", plain[1]) if plain[1] is not None else plain[2]
    else:
        return ""
    name = NOT_IN_NAMES.sub("", name.replace("\\", "/").rpartition("/")[2]).strip()
    return "" if name in (".", "..") else name[:MAX_FILE_NAME]


# Headers.


def _created(reply: Answer, plan: AnswerPlan, origins: Sequence[str]) -> Json:
    """The value of a success without a body: where what was made is, if that is said."""
    place = location_of(reply, plan, origins) if reply.status in (201, 202) else None
    return None if place is None else {"location": place}


def location_of(reply: Answer, plan: AnswerPlan, origins: Sequence[str]) -> str | None:
    """Where `Location` leads, as a path at the tool server; elsewhere only if callers are shown that header."""
    location = headers_of(reply, ("location",), origins).get("location")
    if not location or (("://" in location or location.startswith("//")) and "location" not in plan.headers):
        return None
    return location


def headers_of(reply: Answer, names: Sequence[str], origins: Sequence[str]) -> dict[str, str]:
    """The headers of these names; URLs of the tool server itself are paths there."""
    wire_names = {name.encode("latin-1", "replace") for name in names}
    headers: dict[str, str] = {}
    for name, value in reply.headers:
        if name in wire_names:
            text, key = value[:MAX_HEADER].decode("latin-1"), name.decode("latin-1")
            if name in PLACES:
                for origin in origins:
                    text = re.sub(rf"{re.escape(origin)}(?=[/?#]|$|>)", "", text, flags=re.IGNORECASE) or "/"
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _beside(result: ToolResult, shown: dict[str, str]) -> ToolResult:
    """A value with the headers that callers are shown."""
    headers = jsontext.encode(shown)
    if isinstance(result.value, Raw):
        value: Json = Raw(b'{"body":%b,"headers":%b}' % (bytes(result.value), headers))
    else:
        value = {"body": result.value, "headers": shown}
    size = result.value_bytes + len(headers) + len('{"body":null,"headers":}')
    return ToolResult(value=value, blocks=result.blocks, value_bytes=size)
