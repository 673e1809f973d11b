"""Whatever an operation answers, it is a result, a refusal or broken; never a stray exception."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from gateway.core import jsontext
from gateway.core.errors import GatewayError
from gateway.core.wire import WireReply
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.openapi.document.codec import OpenApiCodec
from tests.fuzz.documents import VALUES
from tests.unit.protocols.openapi.document.calling import ORIGIN, SECRET, TOKEN, called, operation

CODEC = OpenApiCodec((ORIGIN,))
TOOLS = [
    *(operation(), operation("HEAD"), operation("POST"), operation("DELETE", key_header="k"), TOKEN, SECRET),
    operation(media_types=("application/json",), select="[].{a: a, b: length(b)}", headers=("link", "location")),
    operation(select="/a/0/b", media_types=("*/*",)),
]
KINDS = [
    *("application/json", "application/problem+json", "text/plain", "text/html", "text/plain; charset=utf-7", "a;;="),
    *(
        "image/png",
        "application/x-ndjson",
        "application/json-seq",
        "text/event-stream",
        "text/x; charset=gb18030",
        "\xff",
    ),
]
NAMES = [b"location", b"retry-after", b"x-ratelimit-reset", b"date", b"www-authenticate", b"content-disposition"]
NAMES += [b"content-encoding", b"link", b"x-ratelimit-remaining"]
BODIES = st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode())
SAID = st.binary(max_size=30) | st.sampled_from(
    [b"attachment; filename*=utf-8''%ff%", b'Bearer error="insufficient_scope"']
)
WORDS = st.dictionaries(st.sampled_from(["message", "detail", "errors", "error", "title", "loc"]), VALUES, max_size=4)


@settings(max_examples=25, deadline=None)
@given(
    status=st.sampled_from([200, 200, 201, 204, 207, 303, 304, 400, 401, 403, 409, 429, 500, 503])
    | st.integers(100, 999),
    body=BODIES | WORDS.map(lambda value: json.dumps(value).encode()),
    kind=st.none() | st.sampled_from(KINDS),
    headers=st.lists(st.tuples(st.sampled_from(NAMES), SAID), max_size=3),
    tool=st.sampled_from(TOOLS),
)
def test_any_answer_is_a_result_refused_or_broken(
    status: int, body: bytes, kind: str | None, headers: list[tuple[bytes, bytes]], tool: Any
) -> None:
    fields = (*headers, *([] if kind is None else [(b"content-type", kind.encode("latin-1"))]))
    reply, invocation = WireReply(status=status, headers=fields, body=body), called(tool)
    with suppress(GatewayError, BrokenReplyError):
        reading = CODEC.reading(reply, invocation)
        assert reading is None or isinstance(reading.text, bytes)
        result = CODEC.decode_reply(reply, invocation, None)
        text = jsontext.encode(result.value)
        assert len(text) <= result.value_bytes
        assert result.failure is None or (0 < len(result.failure.message) <= 600 and "\n" not in result.failure.message)
        assert isinstance(result.value, Raw) or jsontext.encode(jsontext.decode(text, 100)) == text
