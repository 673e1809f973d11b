"""Whatever bytes arrive, decoders end in a value or in a refusal of ours, never in a stray exception."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import jsontext
from gateway.core.errors import GatewayError
from gateway.core.jsontext import JsonError
from gateway.core.ports import ANONYMOUS
from gateway.core.tool_names import DefinitionError
from gateway.core.wire import Head, WireReply
from gateway.protocols.common import definitions, fields, replies
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.otc.surface import REST
from tests.fuzz.documents import VALUES, damaged
from tests.unit.protocols.common.answers import invocation
from tests.wire import DIALECTS, call_examples, definition_examples

BOUNDED = settings(max_examples=50, deadline=None)
CALLS = [example.body for example in call_examples().values()]
ANSWERS = [json.loads(example.answered.body) for example in call_examples().values()]
LISTED = [example.listed for example in definition_examples(*DIALECTS, "foreign").values()]
INVOCATION = invocation()


@BOUNDED
@given(VALUES)
def test_any_json_value_survives_being_read_and_written(value: Any) -> None:
    assert jsontext.decode(jsontext.encode(value)) == value


@BOUNDED
@given(st.binary() | st.text().map(lambda text: json.dumps(text).encode()))
def test_any_text_is_a_value_or_no_json(text: bytes) -> None:
    with suppress(JsonError):
        assert jsontext.decode(jsontext.encode(jsontext.decode(text))) == jsontext.decode(text)


@BOUNDED
@given(damaged(CALLS), st.sampled_from([None, *DIALECTS]), st.sampled_from(["/call", "/tools/call"]))
def test_any_document_is_a_call_or_refused(document: Any, prefix: str | None, path: str) -> None:
    head = Head(method="POST", path=path, headers={}, dialect=prefix)
    with suppress(GatewayError):
        REST.open(head, document, ANONYMOUS)


@BOUNDED
@given(damaged(ANSWERS), st.sampled_from([200, 400, 404, 422, 500, 503, 302, 201]))
def test_any_document_is_a_result_refused_or_broken(document: Any, status: int) -> None:
    with suppress(GatewayError, BrokenReplyError):
        answer = WireReply(status=status, body=jsontext.encode(document))
        replies.in_band_challenge(replies.decode_reply(answer, INVOCATION).value)


@BOUNDED
@given(st.binary(), st.integers(100, 599), st.binary() | st.sampled_from([b"application/json"]), st.binary())
def test_any_bytes_are_a_result_refused_or_broken(body: bytes, status: int, kind: bytes, after: bytes) -> None:
    headers = ((b"content-type", kind), (b"retry-after", after))
    with suppress(GatewayError, BrokenReplyError):
        replies.decode_reply(WireReply(status=status, headers=headers, body=body), INVOCATION)


@BOUNDED
@given(damaged(LISTED))
def test_any_listed_tool_is_a_definition_that_every_dialect_can_list_or_refused(listed: Any) -> None:
    with suppress(DefinitionError):
        definition, _ = definitions.read_definition(listed, "kit")
        for dialect in otc_surface.DIALECTS.values():
            jsontext.decode(dialect.encode_definition(definition))


@BOUNDED
@given(st.text() | st.from_regex(r"[A-Z]\.[a-z]@[0-9.]{1,9}") | VALUES)
def test_anything_is_a_tool_id_or_refused(wire_id: Any) -> None:
    with suppress(GatewayError):
        ref = fields.tool_ref(wire_id)
        assert fields.tool_ref(ref.tool if ref.version is None else f"{ref.tool}@{ref.version}") == ref
    with suppress(GatewayError):
        otc_surface.LC.decode_call({"request": {"tool_id": wire_id}})
