"""What every answer of the gateway must look like, judged from the wire alone.

The schemas beside this module restate OTC 1.0, OXP 1.0, the RFC and what the LangChain family really does, with the
defects of the published files mended: closed results that allow their own `value`, typed bodies, anchored ids,
asserted formats. Nothing of the gateway is imported here, so that its mistakes are not shared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import jsonschema_rs

Operation = Literal["call", "kept", "list", "health", "challenge"]  # kept: a call that is asked for later

SCHEMAS: Final = Path(__file__).parent / "schemas"
# `bare` is a refusal before the dialect is known.
DIALECTS: Final = ("rfc", "otc", "oxp", "oxp-env", "lc", "bare")
OXP_VERSIONS: Final = ("1.0", "1.0.0", "1")
OWN_CALL_ID: Final = re.compile(r"tg-[A-Za-z0-9_-]{22,43}")  # 128 to 256 bits
# Refusals that say nothing about the call itself, and what HTTP wants in their head (RFC 9110).
PLAIN_REFUSALS: Final[Mapping[int, str | None]] = {
    401: "www-authenticate",
    403: None,
    404: None,
    405: "allow",
    413: None,
    415: None,
    429: "retry-after",
    431: None,
}

# What programs go by (`Toolgate-Code`): the documented words of refusals, and of failures. Both may stand in a failure.
REFUSAL_CODES: Final = frozenset(
    {"invalid_request", "call_conflict", "result_expired", "invalid_arguments", "unauthenticated", "forbidden"}
    | {"not_found", "method_not_allowed", "tool_not_found", "rate_limited", "missing_requirements"}
    | {"payload_too_large", "unsupported_media", "backend_unavailable", "authorization_unavailable"}
    | {"not_ready", "internal"}
    | {"request_timeout", "head_too_large", "gateway_unavailable"}
)
FAILURE_CODES: Final = REFUSAL_CODES | frozenset(
    {"tool_error", "timeout", "unknown", "still_running", "cancelled", "backend_busy", "broken_answer"}
    | {"result_too_large", "result_not_kept", "not_run"}
)


def check(dialect: str, operation: Operation, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Checks one answer; raises AssertionError with what is wrong and the beginning of the body."""
    assert dialect in DIALECTS, f"{dialect!r} is not one of {DIALECTS}"
    fields = {name.lower(): value for name, value in headers.items()}
    try:
        _check_head(dialect, operation, status, fields)
        if status == 304:
            assert not body, "a 304 has no body"
            return
        document = _json(fields, body)
        _check_schema(dialect, operation, status, document)
        _check_code(operation, status, fields, document)
        if operation == "call" and status == 202:
            _check_pending(document)
        if operation == "list" and status == 200:
            _check_catalogue(document if isinstance(document, list) else document.get("tools", document.get("items")))
    except AssertionError as exc:
        where = f"{dialect} {operation} {status}"
        raise AssertionError(f"{where}: {exc}\nheaders: {fields}\nbody: {body[:1000]!r}") from None


def _check_head(dialect: str, operation: Operation, status: int, fields: Mapping[str, str]) -> None:
    if operation in ("call", "kept"):
        _check_head_of_call(operation, status, fields)
        # Once a tool may have run, a 5xx would make real callers run it again by themselves.
        assert status < 500, "a call is never answered 5xx"
        assert "no-store" in fields.get("cache-control", ""), "an answer to a call must be `Cache-Control: no-store`"
    if operation == "list" and status in (200, 304):
        directives = {part.strip() for part in fields.get("cache-control", "").split(",")}
        assert directives >= {"private", "no-cache"}, "a catalogue is `Cache-Control: private, no-cache`"
        assert fields.get("etag"), "a catalogue has an ETag"
        assert fields.get("vary"), "a catalogue says what it varies with"
    if dialect == "oxp" or operation == "health":
        version = fields.get("oxp-version")
        assert version in OXP_VERSIONS, f"OXP-Version is {version!r}"
    demanded = "retry-after" if (operation, status) == ("list", 503) else PLAIN_REFUSALS.get(status)
    assert demanded is None or fields.get(demanded), f"a {status} must carry {demanded}"


def _check_head_of_call(operation: Operation, status: int, fields: Mapping[str, str]) -> None:
    """Who may ask again learns how: under which id, where, and whether it was waited for."""
    call_id, location = fields.get("toolgate-call-id"), fields.get("location")
    assert call_id is not None or status not in (200, 202), "a call that got through must carry Toolgate-Call-Id"
    assert call_id is None or OWN_CALL_ID.fullmatch(call_id), f"Toolgate-Call-Id is {call_id!r}"
    if status == 202 or (operation == "kept" and status == 200):
        assert location, "a call to be asked for later must carry Location"
    assert not location or location.endswith(f"/calls/{call_id}"), f"Location is {location!r}"
    if operation == "call":
        asynchronous = "respond-async" in fields.get("preference-applied", "")
        assert asynchronous == (status == 202), "202 answers `Prefer: respond-async`, and nothing else does"


def _check_code(operation: Operation, status: int, fields: Mapping[str, str], document: Any) -> None:
    """Refusals and failures carry one word for programs, in the head and in the body; nothing else does."""
    said = document if status >= 400 else _error_of(document) if operation in ("call", "kept") else None
    if operation == "health" or said is None:
        assert "toolgate-code" not in fields, "what has not failed carries no Toolgate-Code"
        return
    code = fields.get("toolgate-code")
    assert code in (REFUSAL_CODES if status >= 400 else FAILURE_CODES), f"Toolgate-Code is {code!r}"
    assert said.get("code") == code, f"the body says {said.get('code')!r}, Toolgate-Code {code!r}"


def _error_of(document: Any) -> Any:
    """The error of a result, wherever its dialect has it; None of a success."""
    result = document.get("result", document)
    return result.get("output", result).get("error")


def _check_pending(document: Any) -> None:
    """What is not over is a failure to callers that do not know 202."""
    inner = document.get("result", document)
    assert inner["success"] is False, "a call that still runs has not succeeded"
    assert _error_of(document)["code"] == "still_running", "a call that was accepted still runs"


def _json(fields: Mapping[str, str], body: bytes) -> Any:
    """Reads the body as strictly as JSON allows: UTF-8, no NaN, no name twice."""
    media, _, parameters = fields.get("content-type", "").partition(";")
    assert media.strip().lower() == "application/json", f"the content type is {fields.get('content-type')!r}"
    assert parameters.strip().lower() in ("", "charset=utf-8"), f"the content type has {parameters!r}"
    if "content-encoding" not in fields and "content-length" in fields:
        assert int(fields["content-length"]) == len(body), "content-length is not the length of the body"
    try:
        return json.loads(body.decode(), object_pairs_hook=_no_name_twice, parse_constant=_no_constant)
    except ValueError as exc:
        raise AssertionError(f"the body is not JSON: {exc}") from None


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    assert len(members) == len(pairs), f"a name stands twice among {[name for name, _ in pairs]}"
    return members


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _schema_uri(dialect: str, operation: Operation, status: int) -> str:
    """Names the schema an answer must satisfy."""
    match operation, status:
        case ("health", 200 | 503):
            return "urn:toolgate:oracle:common#/$defs/health"
        case ("challenge", 200):
            return "urn:toolgate:oracle:common#/$defs/challenge-status"
        case ("list", 200):
            name = "list-200"
        case ("call" | "kept", 200 | 202):
            name = "call-200"
        case ("call", 422):
            name = "invalid-input"
        case ("call" | "kept" | "list", 400):
            name = "refusal"
        case ("list", 503):  # ours: rather than a list that is too short
            name = "plain-refusal"
        case (_, _) if status in PLAIN_REFUSALS:
            name = "plain-refusal"
        case _:
            raise AssertionError(f"{operation} has no answer {status}")
    assert name in _documents()[dialect]["$defs"], f"{dialect} has no answer {status} to {operation}"
    return f"urn:toolgate:oracle:{dialect}#/$defs/{name}"


def _check_schema(dialect: str, operation: Operation, status: int, document: Any) -> None:
    errors = _validator(_schema_uri(dialect, operation, status)).iter_errors(document)
    findings = [f"at {'/'.join(map(str, error.instance_path)) or 'the top'}: {error.message}" for error in errors]
    assert not findings, "; ".join(findings)


def _check_catalogue(tools: Any) -> None:
    """What no schema can say: unique ids, versions that agree and ascend, input schemas that are schemas."""
    ids = [tool["id"] for tool in tools]
    assert len(set(ids)) == len(ids), f"an id stands twice among {ids}"
    newest: dict[str, tuple[int, ...]] = {}
    for tool in tools:
        path, _, version = tool["id"].partition("@")
        stated = tool["toolkit"]["version"] if "toolkit" in tool else tool["version"]
        assert stated == version, f"{tool['id']} says its version is {stated}"
        numbers = tuple(map(int, version.split(".")))
        # Callers that key tools by name keep the last one they read: it must be the latest.
        assert newest.get(path, ()) < numbers, f"the versions of {path} do not ascend"
        newest[path] = numbers
        for schema in _schemas(tool):
            assert jsonschema_rs.meta.is_valid(schema), f"{tool['id']} lists an invalid JSON Schema"


def _schemas(tool: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The input and output schema of a listed tool, whatever its dialect wraps them in."""
    if "toolkit" in tool:
        found = [tool["input"]["parameters"], tool["output"].get("value")]
    else:
        found = [tool["input_schema"].get("parameters", tool["input_schema"]), tool["output_schema"]]
    return [schema for schema in found if schema is not None]


@cache
def _documents() -> Mapping[str, Any]:
    return {path.stem: json.loads(path.read_bytes()) for path in SCHEMAS.glob("*.json")}


@cache
def _validator(uri: str) -> jsonschema_rs.Draft202012Validator:
    registry = jsonschema_rs.Registry([(document["$id"], document) for document in _documents().values()])
    return jsonschema_rs.Draft202012Validator({"$ref": uri}, registry=registry, validate_formats=True)
