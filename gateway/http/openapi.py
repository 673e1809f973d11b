"""The description of our public surface for machines: `GET /openapi.json`, OpenAPI 3.1.1.

The bare paths take every dialect, so their bodies are `anyOf`; below a prefix a path speaks one dialect alone.
`components.json` has the schemas and the refusals, which say what this gateway sends: that is narrower than what
OTC 1.0, OXP 1.0 and the RFC allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

from gateway.core.jsontext import decode, encode
from gateway.core.model import JsonObject
from gateway.http.routes import ROUTES
from gateway.protocols.otc.surface import CALLS, OtcSurface
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

    title: str
    request: str
    result: str
    tools: str


FORMS = {
    "rfc": _Form("the OTC RFC", "RfcCall", "RfcResult", "RfcTools"),
    "otc": _Form("OTC 1.0", "OtcCall", "EnvelopedResult", "OtcTools"),
    "oxp": _Form("OXP 1.0, flat", "Call", "Result", "OxpTools"),
    "oxp-env": _Form("OXP 1.0, enveloped", "OxpEnvelopedCall", "EnvelopedResult", "OxpEnvelopedTools"),
    "lc": _Form("the LangChain form", "LcCall", "LcResult", "LcTools"),
}
BY_TOKEN, BY_KEY = ("bearer",), ("oxp_key", "otc_key")
# Headers of answers that are components, too.
_HEADERS = {
    "X-Request-ID": "RequestId",
    "Toolgate-Code": "Code",
    "Cache-Control": "NoStore",
    "OXP-Version": "OxpVersion",
    "RateLimit": "RateLimit",
    "RateLimit-Policy": "RateLimitPolicy",
    "Toolgate-Call-Id": "CallId",
    "Location": "Location",
    "Preference-Applied": "PreferenceApplied",
}


def _headers(*names: str) -> JsonObject:
    return {name: _ref(_HEADERS[name], "headers") for name in names}


REQUEST_ID, NO_STORE, OXP_VERSION = _headers("X-Request-ID"), _headers("Cache-Control"), _headers("OXP-Version")
COUNTED = _headers("RateLimit", "RateLimit-Policy", "X-Request-ID")
CALL_HEADERS = COUNTED | _headers(
    "Cache-Control", "Toolgate-Call-Id", "Location", "Toolgate-Code", "Preference-Applied"
)
ANYWHERE = (400, 405, 408, 414, 431)  # refusals of any request, before its path is looked at
CACHED: JsonObject = {name: {"schema": TEXT} for name in ("ETag", "Vary", "Cache-Control")}


def credentials_for(auth: AuthSettings | None) -> tuple[str, ...]:
    """The names of the security schemes; keys may come as bearer tokens, too."""
    if auth is None:
        return ()
    return (*BY_TOKEN, *(BY_KEY if auth.api_keys else ()))


def document(version: str, public_url: str | None, credentials: Iterable[str] = (*BY_TOKEN, *BY_KEY)) -> bytes:
    """Builds the document from the table of routes and the endpoints of the REST surface.

    `version` is the gateway's own, `public_url` where callers reach it, `credentials` the names of those of which they
    need one.
    """
    paths: dict[str, JsonObject] = {}
    for route in ROUTES:
        if route.operation in DESCRIBED:
            paths |= dict(zip(route.paths(), DESCRIBED[route.operation](), strict=True))
    for path, endpoint in OtcSurface().endpoints.items():
        form = FORMS.get(endpoint.dialect or "")
        wording = "in the dialect of the request" if form is None else f"in {form.title}"
        name = "" if endpoint.dialect is None else f"{endpoint.dialect.replace('-', '_')}_"
        forms = tuple(FORMS.values()) if form is None else (form,)
        if endpoint.operation == "list":
            paths[path] = {"get": _listing(f"{name}list_tools", wording, forms)}
        elif endpoint.route == CALLS[0]:
            paths[path] = {"post": _calling(f"{name}call_tool", wording, forms)}
        else:
            paths[path] = {"post": _calling(f"{name}call", f"{wording}, at the path of the examples", forms)}
    components = decode((files("gateway.http") / "components.json").read_bytes())
    schemes = components.pop("securitySchemes")
    body: JsonObject = {
        "openapi": "3.1.1",
        "info": {"title": "Toolgate", "version": version, "summary": "One HTTP surface for a fleet of tool servers."},
        "paths": paths,
        "components": {"securitySchemes": {name: schemes[name] for name in credentials}, **components},
        "security": [{name: []} for name in credentials],
    }
    if public_url is not None:
        body["servers"] = [{"url": public_url}]
    return encode(body)


def _operation(name: str, summary: str, responses: JsonObject, *refused: int, **more: object) -> JsonObject:
    """An operation with its answers, and the refusals of these statuses."""
    refusals = {str(status): _ref(f"Refused{status}", "responses") for status in sorted({*refused, *ANYWHERE})}
    return {"operationId": name, "summary": summary, "responses": responses | refusals, **more}


def _answer(description: str, fields: JsonObject, content: JsonObject | None = None) -> JsonObject:
    answer = {"description": description, "headers": fields}
    return answer if content is None else answer | {"content": content}


def _listing(name: str, wording: str, forms: tuple[_Form, ...]) -> JsonObject:
    fields = CACHED | COUNTED | (OXP_VERSION if _is_versioned(forms) else {})
    body = _json_of(*(form.tools for form in forms))
    responses = {
        "200": _answer("Every version of every tool; the versions of a tool in ascending order.", fields, body),
        "304": _answer("The list is the one that the caller already has.", fields),
    }
    parameters = [*_version_parameter(forms), _parameter("If-None-Match", "header", TEXT)]
    summary = f"The tools that the caller may use, {wording}"
    return _operation(name, summary, responses, 401, 404, 413, 429, 503, parameters=parameters)


def _calling(name: str, wording: str, forms: tuple[_Form, ...]) -> JsonObject:
    over = "The tool ran, or may have run. The body has its value, or its error with `success: false`."
    runs = "The tool is still running, and the caller did not want to wait. `success` is false."
    return _operation(
        name,
        f"Calls a tool, {wording}",
        {"200": _call_answer(over, forms), "202": _call_answer(runs, forms)},
        *(401, 403, 404, 413, 415, 422, 429),
        parameters=[*_version_parameter(forms), _parameter("Prefer", "header", PREFER)],
        requestBody={"required": True, "content": _json_of(*(form.request for form in forms))},
    )


def _call_answer(description: str, forms: tuple[_Form, ...] = tuple(FORMS.values())) -> JsonObject:
    fields = CALL_HEADERS | (OXP_VERSION if _is_versioned(forms) else {})
    return _answer(description, fields, _json_of(*(form.result for form in forms)))


def _describe_call() -> list[JsonObject]:
    looked = {
        "200": _call_answer("The call is over. A repeated call gets the same."),
        "202": _call_answer("The call is still running."),
    }
    looks = "The result of one of the caller's calls, in the dialect of that call"
    cancelled = {"202": _call_answer("The call is over now, or was over before. The tool may have run.")}
    cancels = "Cancels one of the caller's calls, and tells its tool server where the protocol allows that"
    return [
        {
            "get": _operation("look_at_call", looks, looked, 401, 404, 429, parameters=[KEPT]),
            "delete": _operation("cancel_call", cancels, cancelled, 401, 404, 429, parameters=[KEPT]),
        }
    ]


def _describe_health() -> list[JsonObject]:
    """That of the bare path and of every prefix."""
    fields, body = OXP_VERSION | NO_STORE | REQUEST_ID, _json_of("Health")
    responses = {
        "200": _answer("It accepts calls.", fields, body),
        "503": _answer("Not yet, or no longer: the gateway is starting or stopping.", fields, body),
    }
    wordings = {"": "", **{f"{prefix.replace('-', '_')}_": f", in {form.title}" for prefix, form in FORMS.items()}}
    return [
        {"get": _operation(f"{name}health", f"Whether the gateway accepts calls{wording}", responses, security=[])}
        for name, wording in wordings.items()
    ]


def _describe_challenge() -> list[JsonObject]:
    description = "The state of the authorization. For an unknown or expired token it is `failed`."
    state = _answer(description, OXP_VERSION | NO_STORE | COUNTED, _json_of("ChallengeStatus"))
    summary, parameters = "The state of an authorization that a call asked for", [_parameter("token", "path", TEXT)]
    return [{"get": _operation("check_challenge", summary, {"200": state}, 429, security=[], parameters=parameters)}]


def _describe_document() -> list[JsonObject]:
    content = {"application/json": {"schema": {"type": "object"}}}
    responses = {"200": _answer("OpenAPI 3.1.", REQUEST_ID, content)}
    return [{"get": _operation("describe", "This document", responses, 404, security=[])}]


def _is_versioned(forms: tuple[_Form, ...]) -> bool:
    """Whether a form carries its version in the header OXP-Version."""
    return FORMS["oxp"] in forms


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
DESCRIBED = {  # by the operation of the route: one for each of its paths
    "openapi": _describe_document,
    "poll": _describe_call,
    "challenge": _describe_challenge,
    "health": _describe_health,
}
