"""The components of the OpenAPI document: JSON Schemas, headers of answers, and refusals.

Schemas are after OTC 1.0 and OXP 1.0 (openapi.json), the RFC (section 4) and what the LangChain family really speaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects.fields import MAX_ANCESTORS, MAX_CALL_ID, MAX_TOOL_ID, MAX_TRACE_ID
from gateway.dialects.recognise import DIALECTS
from gateway.errors import ErrorCode, FailureCode, ServerCode
from gateway.model import JsonObject

TEXT = {"type": "string"}
URI = {"type": "string", "format": "uri"}
ANY_OBJECT = {"type": "object"}


def ref(name: str, kind: str = "schemas") -> JsonObject:
    """Points at a component of the document."""
    return {"$ref": f"#/components/{kind}/{name}"}


def json_of(*names: str) -> JsonObject:
    """A JSON body of one of these schemas. They overlap (an LC result may be a flat one), hence no oneOf."""
    schemas = [ref(name) for name in dict.fromkeys(names)]
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def _object(members: Mapping[str, Any], *, closed: bool = False) -> JsonObject:
    """An object; members whose name ends in `?` need not be there."""
    schema: JsonObject = {"type": "object", "properties": {name.rstrip("?"): it for name, it in members.items()}}
    schema["required"] = [name for name in members if not name.endswith("?")]
    return schema | {"additionalProperties": False} if closed else schema


def _array(schema: JsonObject) -> JsonObject:
    return {"type": "array", "items": schema}


def _or_null(schema: JsonObject) -> JsonObject:
    """null is taken for absent: real callers send it."""
    return {"anyOf": [schema, {"type": "null"}]}


def _results(value: JsonObject, error: JsonObject, around: JsonObject | None = None) -> JsonObject:
    """The two ways a call may end; the form may put members `around` those of the result."""
    members = (around or {}) | {"call_id": TEXT}
    duration = {"duration?": {"type": "number", "minimum": 0, "description": "Milliseconds."}}
    ends = ((True, value), (False, error))
    return {
        "oneOf": [
            _object(members | {"success": {"const": success}} | outcome | duration, closed=True)
            for success, outcome in ends
        ]
    }


def _enveloped(member: str, schema: JsonObject) -> JsonObject:
    return _object(VERSION | {member: schema}, closed=True)


def _definition(input_schema: JsonObject) -> JsonObject:
    output = {"type": ["object", "null"], "description": "null: the tool returns nothing."}
    members = {"version": ref("ToolVersion"), "input_schema": input_schema, "output_schema": output}
    return _object(TOOL | members | {"requirements?": ref("Requirements")}, closed=True)


def _asked_tool(pattern: str, *examples: str) -> JsonObject:
    return {"type": "string", "maxLength": MAX_TOOL_ID, "pattern": f"^{pattern}$", "examples": [*examples]}


def _asking(dialect: str, request: JsonObject) -> JsonObject:
    return _object({"$schema?": {"enum": sorted(DIALECTS[dialect].wire_versions)}, "request": request})


WORDS = r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+"
NUMBERS = r"[0-9]+(\.[0-9]+\.[0-9]+)?"
LC_WORDS = rf"([A-Za-z0-9_-]{{1,64}}|{WORDS})(@[0-9]{{1,20}}(\.[0-9]{{1,20}}){{0,2}})?"
VERSION = {"$schema": ref("Version")}
TOOL = {"id": ref("ToolId"), "name": ref("ToolName"), "description": TEXT}
IDS = _array(_object({"id": TEXT}))
VALUE: JsonObject = {"value": {}}
ERROR = {"error": ref("ToolError")}
CALL: JsonObject = {
    "call_id?": {"type": "string", "pattern": f"^[ -~]{{1,{MAX_CALL_ID}}}$"},
    "trace_id?": {"type": "string", "maxLength": MAX_TRACE_ID},
    "tool_id": ref("ToolRef"),
    "input?": ANY_OBJECT,
    "context?": ref("Context"),
}
RFC_CALL = _object(CALL | {"tool_id": ref("RfcToolRef"), "inputs?": ANY_OBJECT}, closed=True)
RFC_TOOL = TOOL | {
    "toolkit": _object({"name": TEXT, "description?": TEXT, "version": ref("ToolVersion")}),
    "input": _object({"parameters": ANY_OBJECT, "non_inferrable_parameters?": _array(TEXT)}),
    "output": _object(
        {
            "available_modes": _array({"enum": ["value", "error", "null"]}),
            "description?": TEXT,
            "value?": ANY_OBJECT,
        }
    ),
    "requirements?": ref("Requirements"),
}
REFUSAL = {
    "$schema?": ref("Version"),
    "message": TEXT,
    "code": ref("Code"),
    "developer_message?": TEXT,
    "detail?": TEXT,
}

SCHEMAS: JsonObject = {
    "Version": {"type": "string", "format": "uri", "examples": ["otc://1.0", "urn:oxp:1.0"]},
    "ToolId": {"type": "string", "pattern": rf"^{WORDS}@[0-9]+\.[0-9]+\.[0-9]+$"},
    "ToolRef": _asked_tool(rf"{WORDS}(@{NUMBERS})?", "Calculator.Add", "Calculator.Add@1", "Calculator.Add@1.0.0"),
    "RfcToolRef": _asked_tool(rf"{WORDS}(@(latest|{NUMBERS}))?", "Calculator.Add", "Calculator.Add@latest"),
    "LcToolRef": _asked_tool(LC_WORDS, "Calculator_Add", "Calculator.Add@1.2"),
    "ToolName": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "ToolVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
    "Requirements": _object(
        {
            "authorization?": _array(_object({"id": TEXT, "oauth2?": _object({"scopes?": _array(TEXT)})})),
            "secrets?": IDS,
            "user_id?": {"type": "boolean"},
        }
    ),
    "Context": _object(
        {
            "authorization?": _array(_object({"id": TEXT, "token": TEXT})),
            "secrets?": _array(_object({"id": TEXT, "value": TEXT})),
            "user_id?": _or_null(TEXT),
            "user_info?": {},
            "group_id?": _or_null(TEXT),
            "thread_ancestors?": _or_null(_array(TEXT) | {"maxItems": MAX_ANCESTORS}),
        }
    ),
    "Call": _object(CALL, closed=True),
    "OtcCall": _asking("otc", ref("Call")),
    "OxpEnvelopedCall": _asking("oxp-env", ref("Call")),
    "RfcCall": _asking("rfc", RFC_CALL | {"not": {"required": ["input", "inputs"]}}),
    "LcCall": _asking("lc", _object({name: _or_null(it) for name, it in CALL.items()} | {"tool_id": ref("LcToolRef")})),
    "Code": {
        "type": "string",
        "description": "Why, in one word for programs: what to do is the same for one word. More words may come.",
        "examples": [*ErrorCode, *FailureCode, *ServerCode],
    },
    "ToolError": _object(
        {
            "message": TEXT,
            "code": ref("Code"),
            "developer_message?": TEXT,
            "can_retry?": {"type": "boolean", "default": False},
            "additional_prompt_content?": TEXT,
            "retry_after_ms?": {"type": "integer", "minimum": 0},
        }
    ),
    "Result": _results(VALUE, ERROR),
    "EnvelopedResult": _enveloped("result", ref("Result")),
    "RfcResult": _results(
        {"output": _object(VALUE, closed=True)}, {"output": _object(ERROR, closed=True)}, around=VERSION
    ),
    "LcResult": _results(VALUE, {"value": {"type": "null"}} | ERROR),
    "Tool": _definition(ANY_OBJECT),
    "OtcTool": _definition(_object({"parameters": ANY_OBJECT})),
    "RfcTool": _object(RFC_TOOL),
    "RfcTools": _enveloped("tools", _array(ref("RfcTool"))),
    "OtcTools": _enveloped("tools", _array(ref("OtcTool"))),
    "OxpTools": _object({"items": _array(ref("Tool"))}, closed=True),
    "OxpEnvelopedTools": _enveloped("items", _array(ref("Tool"))),
    "LcTools": _array(ref("Tool")),
    "Challenge": _object({"id": TEXT, "url": URI, "check_url?": URI}, closed=True),
    "MissingRequirements": _object(
        {"authorization?": _array(ref("Challenge")), "secrets?": IDS, "user_id?": {"type": "boolean"}}
    ),
    "Refusal": _object(REFUSAL | {"missing_requirements?": ref("MissingRequirements")}),
    "InvalidInput": _object(REFUSAL | {"parameter_errors?": {"type": "object", "additionalProperties": TEXT}}),
    "Health": _object({"status": TEXT}, closed=True),
    "ChallengeStatus": _object({"status": {"enum": ["pending", "completed", "failed"]}}, closed=True),
}

# Of answers: the name of the component, its schema, and what it says.
_HEADERS: Mapping[str, tuple[str, JsonObject, str]] = {
    "Toolgate-Code": ("Code", ref("Code"), "The `code` of the body: on each refusal and failure, and on nothing else."),
    "Toolgate-Call-Id": ("CallId", TEXT, "The call as the gateway and its tool servers know it."),
    "Location": ("Location", URI, "Where the call can be asked for, if it is kept."),
    "Preference-Applied": ("PreferenceApplied", TEXT, "What of `Prefer` was followed (RFC 7240)."),
    "OXP-Version": ("OxpVersion", TEXT, "The version of OXP as the caller spelled it."),
    "Retry-After": ("RetryAfter", {"type": "integer", "minimum": 1}, "Seconds."),
    "RateLimit": (
        "RateLimit",
        TEXT | {"examples": ['"per-caller";r=99;t=1']},
        "What is left of the caller's limits, if any (draft-ietf-httpapi-ratelimit-headers-10).",
    ),
    "RateLimit-Policy": (
        "RateLimitPolicy",
        TEXT | {"examples": ['"per-caller";q=100;w=2']},
        "The caller's limits, if there are any.",
    ),
    "X-Request-ID": ("RequestId", TEXT, "The X-Request-ID of the request, or one that was made for it."),
    "WWW-Authenticate": ("WwwAuthenticate", TEXT, "How to authenticate (RFC 6750)."),
    "Allow": ("Allow", TEXT, "The methods this path has."),
    "Cache-Control": ("NoStore", {"const": "no-store"}, ""),
}
HEADERS = {
    name: {"schema": schema} | ({"description": said} if said else {}) for name, schema, said in _HEADERS.values()
}


def headers(*names: str) -> JsonObject:
    """Points at headers by their own names."""
    return {name: ref(_HEADERS[name][0], "headers") for name in names}


NO_STORE = headers("Cache-Control")
OXP_VERSION = headers("OXP-Version")
COUNTED = headers("RateLimit", "RateLimit-Policy", "X-Request-ID")
CALL_HEADERS = COUNTED | NO_STORE | headers("Toolgate-Call-Id", "Location", "Toolgate-Code", "Preference-Applied")

REFUSALS: Mapping[int, tuple[str, JsonObject]] = {
    400: (
        "Not a call, not a tool, not a version there is; something is missing that the tool requires; the call_id was "
        "used for another call; or the tool server is temporarily unavailable. The tool has not run for this request.",
        headers("Retry-After") | CALL_HEADERS,  # it may be the tool server's, of a call that has its name then
    ),
    401: ("No valid credential, or more than one.", headers("WWW-Authenticate")),
    403: ("The caller may not use this tool, or not for that user.", {}),
    404: ("There is no such path, or no such call of the caller's.", {}),
    405: ("The path does not have this method.", headers("Allow")),
    408: ("The request took too long to arrive.", {}),
    413: ("The body is too large.", {}),
    414: ("The path is too long.", {}),
    415: ("The body is not JSON.", {}),
    422: ("The input does not satisfy the tool's schema.", CALL_HEADERS),
    429: (
        "Too many requests, too many calls that are not over or not forgotten, or no room to remember more.",
        headers("Retry-After"),
    ),
    431: ("The head is too large.", {}),
    503: ("The gateway is starting and does not know all tools yet.", headers("Retry-After")),
}
RESPONSES = {
    f"Refused{status}": {
        "description": said,
        "headers": headers("Toolgate-Code") | COUNTED | NO_STORE | OXP_VERSION | own,
        "content": json_of("InvalidInput" if status == 422 else "Refusal"),
    }
    for status, (said, own) in REFUSALS.items()
}
