"""The description of our public surface for machines: `GET /openapi.json`, OpenAPI 3.1.1.

The bare paths take every dialect, so their bodies are `anyOf`; below a prefix a path speaks one dialect alone.
`components.json` has the schemas, which say what this gateway sends: that is narrower than what OTC 1.0, OXP 1.0 and
the RFC allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import NamedTuple

from gateway.jsontext import decode, encode
from gateway.model import JsonObject
from gateway.settings import AuthSettings

TEXT = {"type": "string"}


def _ref(name: str, kind: str = "schemas") -> JsonObject:
    """Points at a component of the document."""
    return {"$ref": f"#/components/{kind}/{name}"}


def _json_of(*names: str) -> JsonObject:
    """A JSON body of one of these schemas. They overlap (an LC result may be a flat one), hence no oneOf."""
    schemas = [_ref(name) for name in dict.fromkeys(names)]
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


class _Form(NamedTuple):
    """One dialect: the schemas of what it takes and gives."""

    prefix: str
    title: str
    request: str
    result: str
    tools: str


FORMS = (
    _Form("rfc", "the OTC RFC", "RfcCall", "RfcResult", "RfcTools"),
    _Form("otc", "OTC 1.0", "OtcCall", "EnvelopedResult", "OtcTools"),
    _Form("oxp", "OXP 1.0, flat", "Call", "Result", "OxpTools"),
    _Form("oxp-env", "OXP 1.0, enveloped", "OxpEnvelopedCall", "EnvelopedResult", "OxpEnvelopedTools"),
    _Form("lc", "the LangChain form", "LcCall", "LcResult", "LcTools"),
)
BY_TOKEN, BY_KEY = ("bearer",), ("oxp_key", "otc_key")
CREDENTIALS: JsonObject = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "oxp_key": {"type": "apiKey", "in": "header", "name": "OXP-API-Key"},
    "otc_key": {"type": "apiKey", "in": "header", "name": "OTC-API-Key"},
}
# Headers of answers: their names, and those of their components.
REQUEST_ID = {"X-Request-ID": _ref("RequestId", "headers")}
RETRY_AFTER = {"Retry-After": _ref("RetryAfter", "headers")}
CODE = {"Toolgate-Code": _ref("Code", "headers")}
NO_STORE = {"Cache-Control": _ref("NoStore", "headers")}
OXP_VERSION = {"OXP-Version": _ref("OxpVersion", "headers")}
COUNTED = {
    "RateLimit": _ref("RateLimit", "headers"),
    "RateLimit-Policy": _ref("RateLimitPolicy", "headers"),
} | REQUEST_ID
CALL_ID = {"Toolgate-Call-Id": _ref("CallId", "headers"), "Location": _ref("Location", "headers")}
CALL_HEADERS = COUNTED | NO_STORE | CALL_ID | CODE | {"Preference-Applied": _ref("PreferenceApplied", "headers")}

REFUSALS: Mapping[int, tuple[str, JsonObject]] = {
    400: (
        "The request is not a valid call, the tool or its version does not exist, the tool needs something that is "
        "missing, the call_id was used for another call, or the tool server is temporarily unavailable. The tool has "
        "not run for this request.",
        RETRY_AFTER | CALL_HEADERS,  # it may be the tool server's, of a call that has its name then
    ),
    401: (
        "The request has no valid credential, or more than one.",
        {"WWW-Authenticate": _ref("WwwAuthenticate", "headers")},
    ),
    403: (
        "The caller may not use this tool, or may not call for that user, or the operator's policy does not allow the "
        "call.",
        {"Toolgate-Reason": _ref("Reason", "headers")},
    ),
    404: ("The path does not exist, or the caller has no such call.", {}),
    405: ("The path does not have this method.", {"Allow": _ref("Allow", "headers")}),
    408: ("The request took too long to arrive.", {}),
    413: ("The body is too large.", {}),
    414: ("The path is too long.", {}),
    415: ("The body is not JSON.", {}),
    422: ("The input does not fit the tool's schema.", CALL_HEADERS),
    429: (
        "The caller made too many requests, has too many running or stored calls, or there is no room for more.",
        RETRY_AFTER,
    ),
    431: ("The head is too large.", {}),
    503: ("The gateway is starting and does not know all tools yet.", RETRY_AFTER),
}
RESPONSES = {
    f"Refused{status}": {
        "description": said,
        "headers": CODE | COUNTED | NO_STORE | OXP_VERSION | own,
        "content": _json_of("InvalidInput" if status == 422 else "Refusal"),
    }
    for status, (said, own) in REFUSALS.items()
}
ANYWHERE = (400, 405, 408, 414, 431)  # refusals of any request, before its path is looked at
CACHED: JsonObject = {name: {"schema": TEXT} for name in ("ETag", "Vary", "Cache-Control")}


def credentials_for(auth: AuthSettings | None) -> tuple[str, ...]:
    """The names of the security schemes; keys may come as bearer tokens, too."""
    if auth is None:
        return ()
    return (*BY_TOKEN, *(BY_KEY if auth.api_keys else ()))


def document(version: str, public_url: str | None, credentials: Iterable[str] = CREDENTIALS) -> bytes:
    """Builds the document.

    `version` is the gateway's own, `public_url` where callers reach it, `credentials` the names of those of which they
    need one.
    """
    paths = {
        "/openapi.json": {"get": _description()},
        "/calls/{call_id}": {"get": _looking(), "delete": _cancelling()},
        "/challenges/{token}": {"get": _challenge()},
        **_endpoints("", "", "in the dialect of the request", FORMS),
    }
    for form in FORMS:
        name = form.prefix.replace("-", "_")
        paths |= _endpoints(f"/{form.prefix}", f"{name}_", f"in {form.title}", (form,))
    components = decode((files("gateway.http") / "components.json").read_bytes())
    body: JsonObject = {
        "openapi": "3.1.1",
        "info": {"title": "Toolgate", "version": version, "summary": "One HTTP surface for a fleet of tool servers."},
        "paths": paths,
        "components": {
            "securitySchemes": {name: CREDENTIALS[name] for name in credentials},
            "headers": components["headers"],
            "responses": RESPONSES,
            "schemas": components["schemas"],
        },
        "security": [{name: []} for name in credentials],
    }
    if public_url is not None:
        body["servers"] = [{"url": public_url}]
    return encode(body)


def _endpoints(at: str, name: str, spoken: str, forms: tuple[_Form, ...]) -> JsonObject:
    """The paths that speak these forms."""
    health = "Whether the gateway accepts calls" + (f", {spoken}" if at else "")
    examples = f"{spoken}, at the path of the examples"
    return {
        f"{at}/health": {"get": _health(f"{name}health", health)},
        f"{at}/tools": {"get": _listing(f"{name}list_tools", spoken, forms)},
        f"{at}/tools/call": {"post": _calling(f"{name}call_tool", spoken, forms)},
        f"{at}/call": {"post": _calling(f"{name}call", examples, forms)},
    }


def _operation(name: str, summary: str, responses: JsonObject, *refused: int, **more: object) -> JsonObject:
    """An operation with its answers, and the refusals of these statuses."""
    refusals = {str(status): _ref(f"Refused{status}", "responses") for status in sorted({*refused, *ANYWHERE})}
    return {"operationId": name, "summary": summary, "responses": responses | refusals, **more}


def _answer(description: str, fields: JsonObject, content: JsonObject | None = None) -> JsonObject:
    answer = {"description": description, "headers": fields}
    return answer if content is None else answer | {"content": content}


def _listing(name: str, spoken: str, forms: tuple[_Form, ...]) -> JsonObject:
    fields = CACHED | COUNTED | (OXP_VERSION if _is_versioned(forms) else {})
    body = _json_of(*(form.tools for form in forms))
    responses = {
        "200": _answer("Every version of every tool; the versions of a tool in ascending order.", fields, body),
        "304": _answer("The list is the one that the caller already has.", fields),
    }
    parameters = [*_version_parameter(forms), _parameter("If-None-Match", "header", TEXT)]
    summary = f"The tools that the caller may use, {spoken}"
    return _operation(name, summary, responses, 401, 404, 413, 429, 503, parameters=parameters)


def _calling(name: str, spoken: str, forms: tuple[_Form, ...]) -> JsonObject:
    ended = "The tool ran, or may have run. The body has its value, or its error with `success: false`."
    runs = "The tool is still running, and the caller did not want to wait. `success` is false."
    return _operation(
        name,
        f"Calls a tool, {spoken}",
        {"200": _ended(ended, forms), "202": _ended(runs, forms)},
        *(401, 403, 404, 413, 415, 422, 429),
        parameters=[*_version_parameter(forms), _parameter("Prefer", "header", PREFER)],
        requestBody={"required": True, "content": _json_of(*(form.request for form in forms))},
    )


def _ended(description: str, forms: tuple[_Form, ...] = FORMS) -> JsonObject:
    fields = CALL_HEADERS | (OXP_VERSION if _is_versioned(forms) else {})
    return _answer(description, fields, _json_of(*(form.result for form in forms)))


def _looking() -> JsonObject:
    summary = "The result of one of the caller's calls, in the dialect of that call"
    responses = {
        "200": _ended("The call is over. A repeated call gets the same."),
        "202": _ended("The call is still running."),
    }
    return _operation("look_at_call", summary, responses, 401, 404, 429, parameters=[KEPT])


def _cancelling() -> JsonObject:
    summary = "Cancels one of the caller's calls, and tells its tool server where the protocol allows that"
    responses = {"202": _ended("The call is over now, or was over before. The tool may have run.")}
    return _operation("cancel_call", summary, responses, 401, 404, 429, parameters=[KEPT])


def _health(name: str, summary: str) -> JsonObject:
    fields, body = OXP_VERSION | NO_STORE | REQUEST_ID, _json_of("Health")
    responses = {
        "200": _answer("It accepts calls.", fields, body),
        "503": _answer("Not yet, or no longer: the gateway is starting or stopping.", fields, body),
    }
    return _operation(name, summary, responses, security=[])


def _challenge() -> JsonObject:
    said, fields = (
        "The state of the authorization. For an unknown or expired token it is `failed`.",
        OXP_VERSION | NO_STORE | COUNTED,
    )
    return _operation(
        "check_challenge",
        "The state of an authorization that a call asked for",
        {"200": _answer(said, fields, _json_of("ChallengeStatus"))},
        429,
        security=[],
        parameters=[_parameter("token", "path", TEXT)],
    )


def _description() -> JsonObject:
    content = {"application/json": {"schema": {"type": "object"}}}
    responses = {"200": _answer("OpenAPI 3.1.", REQUEST_ID, content)}
    return _operation("describe", "This document", responses, 404, security=[])


def _is_versioned(forms: tuple[_Form, ...]) -> bool:
    """Whether a form carries its version in the header OXP-Version."""
    return any(form.prefix == "oxp" for form in forms)


def _version_parameter(forms: tuple[_Form, ...]) -> list[JsonObject]:
    parameter = _parameter("OXP-Version", "header", {"enum": ["1.0", "1.0.0", "1"]})
    return [parameter] if _is_versioned(forms) else []


def _parameter(name: str, place: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


PREFER: JsonObject = TEXT | {"examples": ["respond-async", "wait=10", "respond-async, wait=2"]}
KEPT_ID: JsonObject = TEXT | {
    "description": "The Toolgate-Call-Id of the answer, or the caller's own call_id. The latter works if the "
    "call named no other user than the credential."
}
KEPT = _parameter("call_id", "path", KEPT_ID)
