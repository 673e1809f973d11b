"""The parts of the OpenAPI document around bodies: headers of answers, and refusals."""

from __future__ import annotations

from gateway.http.openapi_schemas import TEXT, URI, schema_ref
from gateway.model import JsonObject

# Refusals of any request, before its path is looked at.
EVERYWHERE = (400, 405, 408, 414, 431)


def ref(kind: str, name: str) -> JsonObject:
    """Points at a component of the document."""
    return {"$ref": f"#/components/{kind}/{name}"}


def json_of(schema: JsonObject) -> JsonObject:
    """A body of JSON."""
    return {"application/json": {"schema": schema}}


def refusals(*statuses: int) -> JsonObject:
    """These refusals, and those that any request may meet."""
    return {str(status): ref("responses", f"Refused{status}") for status in sorted({*statuses, *EVERYWHERE})}


HEADERS: JsonObject = {
    "Code": {
        "description": "The `code` of the body: on each refusal and failure, and on nothing else.",
        "schema": schema_ref("Code"),
    },
    "CallId": {"description": "The call as the gateway and its tool servers know it.", "schema": TEXT},
    "Location": {"description": "Where the call can be asked for, if it is kept.", "schema": URI},
    "PreferenceApplied": {"description": "What of `Prefer` was followed (RFC 7240).", "schema": TEXT},
    "OxpVersion": {"description": "The version of OXP as the caller spelled it.", "schema": TEXT},
    "RetryAfter": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}},
    "RateLimit": {
        "description": "What is left of the caller's limits, if any (draft-ietf-httpapi-ratelimit-headers-10).",
        "schema": TEXT | {"examples": ['"per-caller";r=99;t=1']},
    },
    "RateLimitPolicy": {
        "description": "The caller's limits, if there are any.",
        "schema": TEXT | {"examples": ['"per-caller";q=100;w=2']},
    },
    "RequestId": {"description": "The X-Request-ID of the request, or one that was made for it.", "schema": TEXT},
    "WwwAuthenticate": {"description": "How to authenticate (RFC 6750).", "schema": TEXT},
    "Allow": {"description": "The methods this path has.", "schema": TEXT},
    "NoStore": {"schema": {"const": "no-store"}},
}

FAILED: JsonObject = {"Toolgate-Code": ref("headers", "Code")}
REQUEST_ID: JsonObject = {"X-Request-ID": ref("headers", "RequestId")}
NO_STORE: JsonObject = {"Cache-Control": ref("headers", "NoStore")}
OXP_VERSION: JsonObject = {"OXP-Version": ref("headers", "OxpVersion")}
COUNTED: JsonObject = {
    "RateLimit": ref("headers", "RateLimit"),
    "RateLimit-Policy": ref("headers", "RateLimitPolicy"),
    **REQUEST_ID,
}
CACHED: JsonObject = {"ETag": {"schema": TEXT}, "Vary": {"schema": TEXT}, "Cache-Control": {"schema": TEXT}}
FOUND_AGAIN: JsonObject = {"Toolgate-Call-Id": ref("headers", "CallId"), "Location": ref("headers", "Location")}
CALL_HEADERS: JsonObject = (
    COUNTED | NO_STORE | FOUND_AGAIN | FAILED | {"Preference-Applied": ref("headers", "PreferenceApplied")}
)


def _refusal(description: str, schema: str = "Refusal", **headers: str) -> JsonObject:
    named = {name.replace("_", "-"): ref("headers", header) for name, header in headers.items()}
    around = FAILED | named | COUNTED | NO_STORE | OXP_VERSION
    return {"description": description, "headers": around, "content": json_of(schema_ref(schema))}


def _after_asking(refused: JsonObject) -> JsonObject:
    """A refusal that may also be the tool server's, of a call that has its name then."""
    return refused | {"headers": refused["headers"] | CALL_HEADERS}


RESPONSES: JsonObject = {
    "Refused400": _after_asking(
        _refusal(
            "Not a call, not a tool, not a version there is; something is missing that the tool requires; the call_id "
            "was used for another call; or the tool server is temporarily unavailable. The tool has not run for this "
            "request.",
            Retry_After="RetryAfter",
        )
    ),
    "Refused401": _refusal("No valid credential, or more than one.", WWW_Authenticate="WwwAuthenticate"),
    "Refused403": _refusal("The caller may not use this tool, or not for that user."),
    "Refused404": _refusal("There is no such path, or no such call of the caller's."),
    "Refused405": _refusal("The path does not have this method.", Allow="Allow"),
    "Refused408": _refusal("The request took too long to arrive."),
    "Refused413": _refusal("The body is too large."),
    "Refused414": _refusal("The path is too long."),
    "Refused415": _refusal("The body is not JSON."),
    "Refused422": _after_asking(_refusal("The input does not satisfy the tool's schema.", "InvalidInput")),
    "Refused429": _refusal(
        "Too many requests, too many calls that are not over or not forgotten, or no room to remember more.",
        Retry_After="RetryAfter",
    ),
    "Refused431": _refusal("The head is too large."),
    "Refused503": _refusal("The gateway is starting and does not know all tools yet.", Retry_After="RetryAfter"),
}
