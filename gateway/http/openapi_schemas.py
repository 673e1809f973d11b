"""The JSON Schemas of the OpenAPI document, by name.

After OTC 1.0 and OXP 1.0 (openapi.json), the RFC (section 4) and what the LangChain family really speaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects.fields import MAX_ANCESTORS, MAX_CALL_ID, MAX_TOOL_ID, MAX_TRACE_ID
from gateway.dialects.lc import Lc
from gateway.dialects.otc import Otc, Rfc
from gateway.dialects.oxp import OxpEnveloped
from gateway.errors import ErrorCode, FailureCode, ServerCode
from gateway.model import JsonObject

TEXT = {"type": "string"}
URI = {"type": "string", "format": "uri"}
ANY_OBJECT = {"type": "object"}
CODE_MEANS = "Why, in one word for programs: what to do is the same for one word. More words may come."


def schema_ref(name: str) -> JsonObject:
    """Points at a schema of this file."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Mapping[str, Any], *required: str, closed: bool = False) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": dict(properties), "required": list(required)}
    return schema | {"additionalProperties": False} if closed else schema


def _array(schema: JsonObject) -> JsonObject:
    return {"type": "array", "items": schema}


def _or_null(schema: JsonObject) -> JsonObject:
    """null is taken for absent: real callers send it."""
    return {"anyOf": [schema, {"type": "null"}]}


def _result(success: bool, outcome: JsonObject, *, around: JsonObject | None = None) -> JsonObject:
    """One way a call may end; `outcome` and what the form puts `around` it are always there."""
    members = (around or {}) | {"call_id": TEXT, "success": {"const": success}} | outcome
    duration = {"type": "number", "minimum": 0, "description": "Milliseconds."}
    return _object(members | {"duration": duration}, *members, closed=True)


def _either(value: JsonObject, error: JsonObject) -> JsonObject:
    return {"oneOf": [value, error]}


def _enveloped(member: str, schema: JsonObject) -> JsonObject:
    return _object({"$schema": schema_ref("Version"), member: schema}, "$schema", member, closed=True)


def _definition(input_schema: JsonObject) -> JsonObject:
    members = TOOL | {"version": schema_ref("ToolVersion"), "input_schema": input_schema}
    members |= {"output_schema": {"type": ["object", "null"], "description": "null: the tool returns nothing."}}
    return _object(members | {"requirements": schema_ref("Requirements")}, *members, closed=True)


def _asked_tool(pattern: str, *examples: str) -> JsonObject:
    return {"type": "string", "maxLength": MAX_TOOL_ID, "pattern": f"^{pattern}$", "examples": [*examples]}


def _asking(wire_versions: frozenset[str], request: JsonObject) -> JsonObject:
    return _object({"$schema": {"enum": sorted(wire_versions)}, "request": request}, "request")


WORDS = r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+"
NUMBERS = r"[0-9]+(\.[0-9]+\.[0-9]+)?"
VERSION = {"$schema": schema_ref("Version")}
TOOL = {"id": schema_ref("ToolId"), "name": schema_ref("ToolName"), "description": TEXT}
IDENTIFIED = _object({"id": TEXT}, "id")
VALUE: JsonObject = {"value": {}}
ERROR = {"error": schema_ref("ToolError")}
CALL: JsonObject = {
    "call_id": {"type": "string", "pattern": f"^[ -~]{{1,{MAX_CALL_ID}}}$"},
    "trace_id": {"type": "string", "maxLength": MAX_TRACE_ID},
    "tool_id": schema_ref("ToolRef"),
    "input": ANY_OBJECT,
    "context": schema_ref("Context"),
}
CODES = [*ErrorCode, *FailureCode, *ServerCode]
REFUSAL = VERSION | {"message": TEXT, "code": schema_ref("Code"), "developer_message": TEXT, "detail": TEXT}

SCHEMAS: JsonObject = {
    "Version": {"type": "string", "format": "uri", "examples": ["otc://1.0", "urn:oxp:1.0"]},
    "ToolId": {"type": "string", "pattern": r"^[A-Za-z0-9_]+\.[A-Za-z0-9_]+@[0-9]+\.[0-9]+\.[0-9]+$"},
    "ToolRef": _asked_tool(rf"{WORDS}(@{NUMBERS})?", "Calculator.Add", "Calculator.Add@1", "Calculator.Add@1.0.0"),
    "RfcToolRef": _asked_tool(rf"{WORDS}(@(latest|{NUMBERS}))?", "Calculator.Add", "Calculator.Add@latest"),
    "LcToolRef": _asked_tool(
        rf"([A-Za-z0-9_-]{{1,64}}|{WORDS})(@[0-9]{{1,20}}(\.[0-9]{{1,20}}){{0,2}})?",
        "Calculator_Add",
        "Calculator.Add@1.2",
    ),
    "ToolName": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "ToolVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
    "Requirements": _object(
        {
            "authorization": _array(_object({"id": TEXT, "oauth2": _object({"scopes": _array(TEXT)})}, "id")),
            "secrets": _array(IDENTIFIED),
            "user_id": {"type": "boolean"},
        }
    ),
    "Context": _object(
        {
            "authorization": _array(_object({"id": TEXT, "token": TEXT}, "id", "token")),
            "secrets": _array(_object({"id": TEXT, "value": TEXT}, "id", "value")),
            "user_id": _or_null(TEXT),
            "user_info": {},
            "group_id": _or_null(TEXT),
            "thread_ancestors": _or_null(_array(TEXT) | {"maxItems": MAX_ANCESTORS}),
        }
    ),
    "Call": _object(CALL, "tool_id", closed=True),
    "OtcCall": _asking(Otc.wire_versions, schema_ref("Call")),
    "OxpEnvelopedCall": _asking(OxpEnveloped.wire_versions, schema_ref("Call")),
    "RfcCall": _asking(
        Rfc.wire_versions,
        _object(CALL | {"tool_id": schema_ref("RfcToolRef"), "inputs": ANY_OBJECT}, "tool_id", closed=True)
        | {"not": {"required": ["input", "inputs"]}},
    ),
    "LcCall": _asking(
        Lc.wire_versions,
        _object({name: _or_null(it) for name, it in CALL.items()} | {"tool_id": schema_ref("LcToolRef")}, "tool_id"),
    ),
    "Code": {"type": "string", "description": CODE_MEANS, "examples": CODES},
    "ToolError": _object(
        {
            "message": TEXT,
            "code": schema_ref("Code"),
            "developer_message": TEXT,
            "can_retry": {"type": "boolean", "default": False},
            "additional_prompt_content": TEXT,
            "retry_after_ms": {"type": "integer", "minimum": 0},
        },
        "message",
        "code",
    ),
    "Result": _either(_result(True, VALUE), _result(False, ERROR)),
    "EnvelopedResult": _enveloped("result", schema_ref("Result")),
    "RfcResult": _either(
        _result(True, {"output": _object(VALUE, "value", closed=True)}, around=VERSION),
        _result(False, {"output": _object(ERROR, "error", closed=True)}, around=VERSION),
    ),
    "LcResult": _either(_result(True, VALUE), _result(False, {"value": {"type": "null"}} | ERROR)),
    "Tool": _definition(ANY_OBJECT),
    "OtcTool": _definition(_object({"parameters": ANY_OBJECT}, "parameters")),
    "RfcTool": _object(
        TOOL
        | {
            "toolkit": _object(
                {"name": TEXT, "description": TEXT, "version": schema_ref("ToolVersion")}, "name", "version"
            ),
            "input": _object({"parameters": ANY_OBJECT, "non_inferrable_parameters": _array(TEXT)}, "parameters"),
            "output": _object(
                {
                    "available_modes": _array({"enum": ["value", "error", "null"]}),
                    "description": TEXT,
                    "value": ANY_OBJECT,
                },
                "available_modes",
            ),
            "requirements": schema_ref("Requirements"),
        },
        *TOOL,
        "toolkit",
        "input",
        "output",
    ),
    "RfcTools": _enveloped("tools", _array(schema_ref("RfcTool"))),
    "OtcTools": _enveloped("tools", _array(schema_ref("OtcTool"))),
    "OxpTools": _object({"items": _array(schema_ref("Tool"))}, "items", closed=True),
    "OxpEnvelopedTools": _enveloped("items", _array(schema_ref("Tool"))),
    "LcTools": _array(schema_ref("Tool")),
    "Challenge": _object({"id": TEXT, "url": URI, "check_url": URI}, "id", "url", closed=True),
    "MissingRequirements": _object(
        {
            "authorization": _array(schema_ref("Challenge")),
            "secrets": _array(IDENTIFIED),
            "user_id": {"type": "boolean"},
        }
    ),
    "Refusal": _object(REFUSAL | {"missing_requirements": schema_ref("MissingRequirements")}, "message", "code"),
    "InvalidInput": _object(
        REFUSAL | {"parameter_errors": {"type": "object", "additionalProperties": TEXT}}, "message", "code"
    ),
    "Health": _object({"status": TEXT}, "status", closed=True),
    "ChallengeStatus": _object({"status": {"enum": ["pending", "completed", "failed"]}}, "status", closed=True),
}
