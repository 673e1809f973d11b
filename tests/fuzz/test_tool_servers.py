"""Whatever a tool server or an issuer says, its decoders end in a value or in a refusal of theirs."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.auth.keys import KeySet, KeySetError
from gateway.core import jsontext
from gateway.core.model import ToolResult
from gateway.core.sse import EventParser
from gateway.core.tool_names import DefinitionError
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.rap import messages as callback
from gateway.protocols.rap.toolset import read_toolset
from gateway.protocols.rcrt import breadcrumbs as rcrt
from gateway.protocols.rcrt import tools as rcrt_tools
from gateway.upstream import consent_links as challenges
from tests.fuzz.documents import VALUES, damaged, damaged_bytes
from tests.support.keys import jwk
from tests.unit.protocols.common.answers import offered
from tests.wire import ROOT

SOME = settings(max_examples=80, deadline=None)
CALLBACKS = [json.loads(path.read_text()) for path in sorted((ROOT / "callback").glob("*.json"))]
POSTED = [one["posted"] for one in CALLBACKS if "posted" in one]
TOOLSETS = [one["listed"] for one in CALLBACKS if "listed" in one]
EVENTS = [json.loads(path.read_text())["answered"] for path in sorted((ROOT / "rcrt").glob("*.json"))]
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
KEY_SETS = [{"keys": [jwk(kind, kid="k", use="sig") for kind in ("rsa", "p256", "ed25519")]}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
RECORDS = [
    {
        "id": "0b2f",
        "schema_name": "tool.code.v1",
        "tags": ["tool:add", "approved", "workspace:tools"],
        "version": 3,
        "semantic_version": "1.2.0",
        "description": "Adds.",
        "context": {"name": "add", "version": "1.2", "input_schema": SCHEMA, "output_schema": {}, "examples": [{}]},
    },
    {"id": "0b30", "tags": ["tool:old"], "context": {"name": "old", "definition": {"inputSchema": SCHEMA}}},
]
CATALOGUES = [{"tools": [{"name": "add", "version": "1.0.0", "description": "Adds.", "inputSchema": SCHEMA}]}]


def read_callback(body: bytes) -> callback.Callback:
    id_, group = POSTED[0]["id"], POSTED[0]["group_id"]
    patterns = [re.compile("(?i)fail")]
    return callback.decode_callback(body, id_, group, decode="auto", failure_patterns=patterns)


@SOME
@given(damaged(POSTED).map(jsontext.encode) | damaged_bytes([jsontext.encode(one) for one in POSTED]) | st.binary())
def test_anything_posted_means_something(body: bytes) -> None:
    match read_callback(body):
        case callback.ResultMessage(result=ToolResult(value=value)):
            jsontext.decode(jsontext.encode(value), callback.MAX_DEPTH)
        case callback.Refused(reason=reason):
            assert reason


@SOME
@given(damaged(TOOLSETS))
def test_any_toolset_is_one_that_can_be_listed_or_refused(document: Any) -> None:
    for definition in offered(read_toolset, document)[1]:
        for dialect in otc_surface.DIALECTS.values():
            jsontext.decode(dialect.encode_definition(definition))


@SOME
@given(damaged(EVENTS), st.booleans())
def test_any_event_is_a_crumb_or_nothing(document: Any, idempotent: bool) -> None:
    for crumb in (rcrt.decode_event(document), rcrt.decode_crumb(document)):
        if crumb is not None:
            rcrt.request_id_in(crumb)
            assert all(isinstance(answered, str) for answered in rcrt.ids_answered(crumb))
            jsontext.encode(rcrt.decode_response(crumb.context, idempotent=idempotent).value)


@SOME
@given(damaged([event["context"] for event in EVENTS]))
def test_any_context_is_a_result(context: Any) -> None:
    result = rcrt.decode_response(context if isinstance(context, dict) else None, idempotent=True)
    assert result.failure is None or (result.value is None and result.failure.message)


@SOME
@given(damaged(RECORDS))
def test_any_record_is_a_tool_that_can_be_listed_or_refused(record: Any) -> None:
    crumb = rcrt.decode_crumb(record)
    if crumb is not None:
        rcrt_tools.is_callable(crumb, "workspace:tools", needs_approval=True)
        with suppress(DefinitionError):
            definition, _ = rcrt_tools.read_tool(record, rcrt_tools.tool_name(crumb), "kit")
            for dialect in otc_surface.DIALECTS.values():
                jsontext.decode(dialect.encode_definition(definition))


@SOME
@given(damaged(CATALOGUES))
def test_any_catalogue_is_read_tool_by_tool(context: Any) -> None:
    summary, _ = offered(rcrt_tools.read_catalog, [{"id": "c1", "context": context}])
    assert not summary.failure
    assert all(rejected.id and rejected.reason for rejected in summary.rejected)


@SOME
@given(
    st.lists(
        st.sampled_from([b"data", b":", b" ", b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"x"]) | st.binary(min_size=1)
    )
)
def test_any_stream_cut_anywhere_holds_the_same_events(pieces: list[bytes]) -> None:
    whole, cut = EventParser(50), EventParser(50)
    assert [event for piece in pieces for event in cut.feed(piece)] == whole.feed(b"".join(pieces))
    assert cut.skipped == whole.skipped


@SOME
@given(damaged(KEY_SETS) | VALUES)
def test_any_document_is_a_key_set_or_none(document: Any) -> None:
    with suppress(KeySetError):
        keys = KeySet.read(document, ALGORITHMS)
        for kid in ("k", None, 1, ["k"]):
            for algorithm in (*ALGORITHMS, "none"):
                assert not any(verifier.accepts(b"signed", b"signature") for verifier in keys.find(kid, algorithm))


@SOME
@given(st.text() | st.from_regex(r"(https?|file)?:?//[\[\]a-z0-9.:@/?#]*[:/0-9]*"), st.sampled_from(["http://a/b", ""]))
@example("http://[", "http://a")
@example("//a:99999999", "http://a")
@example("https://\u2100", "http://a")
def test_any_text_is_judged_as_a_url(text: str, base: str) -> None:
    assert isinstance(challenges.absolute(base, text), str)
    assert not challenges.is_https_or_loopback(text) or text.startswith(("http", "HTTP", "hTTp", "H", "h"))
