"""What a success of an operation is to a caller, by status, type and what its plan says."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from msgspec import Raw

from gateway.core import jsontext
from gateway.core.errors import FailureCode
from gateway.core.model import ToolResult
from gateway.core.wire import WireReply
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.openapi.document.codec import OpenApiCodec
from gateway.protocols.openapi.reading import read_value
from tests.unit.protocols.openapi.document.calling import ORIGIN, answer, called, operation

CODEC = OpenApiCodec((ORIGIN,))
PNG = b"\x89PNG\r\n\x1a\n\0\xff"
PNG64 = b64encode(PNG).decode()
XLS = "application/vnd.ms-excel"


def read(reply: WireReply, method: str = "GET", document: Any = None, **plan: Any) -> ToolResult:
    return CODEC.decode_reply(reply, called(operation(method, **plan)), document)


VALUES: list[tuple[WireReply, Any]] = [
    # JSON, whatever the success is called.
    *((answer(status, {"a": 1}), {"a": 1}) for status in (200, 201, 202, 203, 206, 207, 226, 299)),
    (answer(200, b'\xef\xbb\xbf{"a":1,"a":2}'), {"a": 2}),
    (answer(200, [1], "application/vnd.a.v2+json; charset=utf-8"), [1]),
    (answer(200, "x", "Application/JSON;charset=UTF-8"), "x"),
    (answer(200, None, "text/json"), None),
    (answer(200, {"a": 1}, None), {"a": 1}),
    (answer(200, b"[1", None), "[1"),
    (answer(200, b"\xff\0", None), {"content_type": "application/octet-stream", "base64": "/wA="}),
    # JSON in another charset, if that is so.
    (answer(200, '{"a":"é"}'.encode("latin-1"), "application/json; charset=ISO-8859-1"), {"a": "é"}),
    (answer(200, '["Привет"]'.encode("cp1251"), 'application/problem+json;charset="windows-1251"'), ["Привет"]),
    (answer(200, '["日本"]'.encode("shift_jis"), "application/json; charset=Shift_JIS"), ["日本"]),
    (answer(200, '["é"]'.encode("utf-16"), "application/json; charset=utf-16"), ["é"]),
    (answer(200, '["é"]\n["ü"]'.encode("utf-16-le"), "application/x-ndjson; charset=utf-16le"), [["é"], ["ü"]]),
    (answer(200, '["日"]'.encode(), "application/json; charset=us-ascii"), ["日"]),
    (answer(200, b"[1]", "application/json; charset=zlib"), [1]),
    (answer(200, b'{"a":"b\\ud800c"}'), {"a": "b\ufffdc"}),  # half a character
    (answer(200, b'["\\udc00"]', None), ["\ufffd"]),
    # Nothing.
    *((answer(status, b"", kind), None) for status in (200, 203, 204, 205) for kind in (None, "application/json")),
    (answer(204, b"x", "text/plain"), None),
    (answer(200, b"\r\n"), None),
    (answer(201, b"", None, location="/things/7"), {"location": "/things/7"}),
    (answer(202, b"", None, location=f"{ORIGIN}/jobs/7?x=1"), {"location": "/jobs/7?x=1"}),
    (answer(201, b"", None, location="http://10.0.0.1/things/7"), None),
    (answer(201, b"", None, location=f"{ORIGIN}.evil.example/7"), None),
    (answer(201, b"", None, location="//10.0.0.1/7"), None),
    (answer(200, b"", None, location="/things/7"), None),
    # Values one after the other.
    (answer(200, b'{"a":1}\n[2]\r\n\r\n3\n', "application/x-ndjson"), [{"a": 1}, [2], 3]),
    (answer(200, b'\x1e{"a":\n1}\n\x1e2\n', "application/json-seq"), [{"a": 1}, 2]),
    (answer(200, b"\n", "application/jsonl"), []),
    # Text.
    (answer(200, "é".encode(), "text/plain"), "é"),
    (answer(200, b"\xe9", "text/plain; charset=ISO-8859-1"), "\xe9"),
    (answer(200, "é".encode("utf-16"), 'text/csv; charset="utf-16"'), "é"),
    (answer(200, b"\xef\xbb\xbfa,b", "text/csv"), "a,b"),
    (answer(200, b"<a/>", "application/atom+xml"), "<a/>"),
    (answer(200, b"<p>", "text/html"), "<p>"),
    (answer(200, b'{"a":1}', "text/plain"), '{"a":1}'),
    (answer(200, b"\xff\xfe", "text/plain"), {"content_type": "text/plain", "base64": "//4="}),
    (answer(200, b"abc", "text/plain; charset=zlib"), {"content_type": "text/plain", "base64": "YWJj"}),
    # Bytes.
    (answer(200, PNG, "image/png"), {"content_type": "image/png", "base64": PNG64}),
    (answer(200, b"x", "Evil/\xe9"), {"content_type": "application/octet-stream", "base64": "eA=="}),
    (
        answer(200, b"x", XLS, content_disposition='attachment; filename="../../q \\"1\\".xls"'),
        {"content_type": XLS, "base64": "eA==", "filename": 'q "1".xls'},
    ),
    (
        answer(
            200, b"x", XLS, content_disposition="attachment; filename=a.xls; filename*=UTF-8''%e2%82%ac%0A%e2%80%ae.xls"
        ),
        {"content_type": XLS, "base64": "eA==", "filename": "€.xls"},
    ),
]


@pytest.mark.parametrize(("reply", "value"), VALUES)
def test_openapi_41_an_answer_is_a_value_by_its_status_and_type(reply: WireReply, value: Any) -> None:
    result = read(reply)
    assert result == ToolResult(value=value)
    assert result.value_bytes >= len(jsontext.encode(value))


PLANNED: list[tuple[WireReply, dict[str, Any], Any]] = [
    (answer(200, b' {"a":1}', "text/plain"), {"media_types": ("application/json",)}, {"a": 1}),
    (answer(200, b"OK", "text/plain"), {"media_types": ("application/json",)}, "OK"),
    (answer(200, b'{"a":1}', "text/plain"), {"media_types": ("application/json", "text/plain")}, '{"a":1}'),
    (answer(200, b"<p>", "text/html"), {"media_types": ("application/json", "text/html")}, "<p>"),
    # Selections.
    (answer(200, {"data": {"a/b": [1, {"c": 2}]}}), {"select": "/data/a~1b/1/c"}, 2),
    (answer(200, {"data": []}), {"select": "/data/0"}, None),
    (answer(200, [{"id": 1, "x": 2}, {"id": 3}]), {"select": "[].{n: id}"}, [{"n": 1}, {"n": 3}]),
    (answer(200, b"plain", "text/plain"), {"select": "/data"}, "plain"),
    (answer(204), {"select": "/data"}, None),
    # Headers beside the body.
    (
        answer(200, [1], link=f'<{ORIGIN}/things?page=2>; rel="next", <https://other.example/>; rel="x"', etag='"7"'),
        {"headers": ("link", "etag", "x-next-page")},
        {
            "body": [1],
            "headers": {"link": '</things?page=2>; rel="next", <https://other.example/>; rel="x"', "etag": '"7"'},
        },
    ),
    (
        answer(201, b"", None, location="http://10.0.0.1/7"),
        {"headers": ("location",)},
        {"body": {"location": "http://10.0.0.1/7"}, "headers": {"location": "http://10.0.0.1/7"}},
    ),
    (
        answer(200, {"a": {"b": 1}}, etag="x"),
        {"headers": ("etag",), "select": "a.b"},
        {"body": 1, "headers": {"etag": "x"}},
    ),
]


@pytest.mark.parametrize(("reply", "plan", "value"), PLANNED)
def test_openapi_58_selections_and_headers_are_of_what_the_document_and_the_operator_say(
    reply: WireReply, plan: dict[str, Any], value: Any
) -> None:
    result = read(reply, **plan)
    assert result == ToolResult(value=value)
    assert result.value_bytes >= len(jsontext.encode(value))


def test_a_head_is_answered_with_headers() -> None:
    reply = answer(200, b"", "image/png", content_length="9", server="x", x_total="3")
    assert read(reply, "HEAD").value == {"status": 200, "headers": {"content-length": "9", "content-type": "image/png"}}
    assert read(reply, "HEAD", headers=("x-total",)).value == {"status": 200, "headers": {"x-total": "3"}}


BROKEN: list[tuple[WireReply, dict[str, Any], str]] = [
    (answer(200, b'{"a":'), {}, "status 200, not JSON: "),
    (answer(201, b"NaN"), {}, "status 201, not JSON: "),
    (answer(200, b"{}\n{"), {}, "status 200, not JSON: "),
    (answer(200, b"\xff"), {}, "status 200, not JSON: "),
    (
        answer(200, b"<p>secret</p>", "text/html; charset=utf-8"),
        {"media_types": ("application/json",)},
        "text/html in place",
    ),
    (answer(200, b"data: 1\n\n", "text/event-stream"), {}, "a stream of events"),
    (answer(200, b"\x1f\x8b\x08", content_encoding="gzip"), {}, "it is in a content coding"),
    (answer(200, b"[[" * 20000), {}, "it holds too many values"),
    (answer(200, {"a": "secret"}), {"select": "abs(a)"}, "the expression does not fit the answer (JMESPathTypeError)"),
]


@pytest.mark.parametrize(("reply", "plan", "reason"), BROKEN)
def test_openapi_41_what_cannot_be_read_is_broken_and_is_not_quoted(
    reply: WireReply, plan: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BrokenReplyError) as raised:
        read(reply, **plan)
    assert reason in str(raised.value)
    assert "secret" not in str(raised.value)


def test_openapi_41_bytes_above_their_limit_are_too_large() -> None:
    assert read(answer(200, b"1234", "image/png"), max_binary_bytes=4).failure is None
    failure = read(answer(200, b"12345", "image/png"), max_binary_bytes=4).failure
    assert failure is not None
    assert (failure.message, failure.code) == (
        "The answer is too large: 5 bytes of image/png.",
        FailureCode.RESULT_TOO_LARGE,
    )


BLOCKS: list[tuple[str, dict[str, Any]]] = [
    ("image/png", {"type": "image", "data": PNG64, "mimeType": "image/png"}),
    ("audio/mpeg", {"type": "audio", "data": PNG64, "mimeType": "audio/mpeg"}),
    (
        "application/pdf",
        {
            "type": "resource",
            "resource": {"uri": "toolgate:///answers/a%20%25.pdf", "mimeType": "application/pdf", "blob": PNG64},
        },
    ),
]


@pytest.mark.parametrize(("kind", "block"), BLOCKS)
def test_bytes_are_a_block_of_their_kind_to_callers_of_mcp(kind: str, block: dict[str, Any]) -> None:
    result = read(answer(200, PNG, kind, content_disposition='inline; filename="a %.pdf"'))
    assert (result.blocks, result.structured) == ([block], "none")
    assert read(answer(200, PNG, kind), headers=("etag",)).structured is None


def test_what_was_read_apart_is_the_value_as_it_is() -> None:
    reply = answer(200, b"[]", etag="x")
    assert read(reply, document=Raw(b"[1]")).value == Raw(b"[1]")
    assert read(reply, document=[1], select="/0").value == [1]  # selected there
    assert read(reply, document=Raw(b"[1]"), headers=("etag",)).value == Raw(b'{"body":[1],"headers":{"etag":"x"}}')


LARGE = b"[%b1]" % (b"1," * 9000)
READINGS: list[tuple[WireReply, dict[str, Any], bytes | None]] = [
    (answer(200, LARGE), {}, LARGE),
    (answer(206, LARGE, "application/x+json"), {}, LARGE),
    (answer(200, b"\xef\xbb\xbf" + LARGE), {}, LARGE),
    (answer(200, b"1\n" * 9000, "application/jsonl"), {}, b"[" + b",".join([b"1"] * 9000) + b"]"),
    (answer(200, LARGE, "text/plain"), {"media_types": ("application/json",)}, LARGE),
    (answer(200, LARGE, "text/plain"), {}, None),
    (answer(200, LARGE, "image/png"), {}, None),
    (answer(400, LARGE), {}, None),
    (answer(200, [1]), {}, None),
    (answer(200, [1]), {"select": "/0"}, b"[1]"),
]


@pytest.mark.parametrize(("reply", "plan", "text"), READINGS)
def test_large_json_and_what_is_selected_from_is_read_apart(
    reply: WireReply, plan: dict[str, Any], text: bytes | None
) -> None:
    reading = CODEC.reading(reply, called(operation(**plan)))
    assert (reading and (reading.text, reading.members, reading.select)) == (
        None if text is None else (text, None, plan.get("select", ""))
    )


OK: list[tuple[Any, Any, Any]] = [  # an answer, what is selected, the value
    ({"ok": True, "n": 1}, "", {"ok": True, "n": 1}),
    ({"ok": True, "n": 1}, "n", 1),
    ({"ok": True, "n": [1]}, "/n/0", 1),
]


@pytest.mark.parametrize(("body", "select", "value"), OK)
def test_a_success_meets_the_condition_of_the_operator(body: Any, select: str, value: Any) -> None:
    assert read(answer(200, body), success="ok == true", select=select).value == value
    beside = read(answer(200, body, x_a="b"), success="ok == true", select=select, headers=("x-a",))
    assert beside.value == {"body": value, "headers": {"x-a": "b"}}


@pytest.mark.parametrize("status", [200, 201])
def test_an_answer_that_does_not_meet_it_is_a_failure_in_the_words_of_the_service(status: int) -> None:
    for body, message in (
        ({"ok": False, "error": "channel_not_found"}, "channel_not_found"),
        ({"ok": False, "message": "No\u202e such"}, "No such"),
        ({"ok": False}, f"The answer ({status}) does not say that this has succeeded."),
        ({"other": 1}, f"The answer ({status}) does not say that this has succeeded."),
        ([], f"The answer ({status}) does not say that this has succeeded."),
    ):
        result = read(answer(status, body), success="ok == true", select="/ok")
        assert result.failure is not None
        assert (result.failure.message, result.failure.can_retry) == (message, False)
        assert result.failure.extras == {"status": status}


def test_what_is_no_json_is_judged_by_its_status_alone() -> None:
    assert read(answer(204, b"", None), success="ok").failure is None
    assert read(answer(200, b"fine", "text/plain"), success="ok").value == "fine"


@pytest.mark.parametrize("settings", [{"success": "length(ok) > 0"}, {"select": "abs(@)"}])
def test_callers_are_told_that_a_setting_does_not_fit_an_answer(settings: dict[str, Any]) -> None:
    with pytest.raises(BrokenReplyError) as raised:
        read(answer(200, {"ok": True, "x": "secret"}), **settings)
    assert raised.value.message.startswith("The answer (200) came, but ")
    assert raised.value.message.endswith("the expression does not fit the answer (JMESPathTypeError).")
    assert ("`success`" in raised.value.message) is ("success" in settings)
    assert "secret" not in raised.value.message


def test_very_many_values_are_judged_where_they_are_read() -> None:
    for body, succeeded in (({"ok": True, "rest": [[]] * 20_000}, True), ({"ok": False, "error": "no"}, False)):
        text = jsontext.encode(body)
        reply = answer(200, text)
        reading = CODEC.reading(reply, called(operation(success="ok == true")))
        assert reading is not None
        why, *found = read_value(reading.text, b"64", reading.select.encode())
        assert why == b""
        result = read(reply, success="ok == true", document=Raw(found[0]))
        assert (result.value == Raw(text)) is succeeded
        assert (result.failure is None) is succeeded
