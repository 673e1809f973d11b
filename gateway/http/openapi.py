"""The description of our public surface for machines: `GET /openapi.json`.

OpenAPI 3.1.1. The bare paths take every dialect, so their bodies are `anyOf`; below a prefix a path speaks one
dialect alone. The schemas say what this gateway sends, which is narrower than what OTC 1.0, OXP 1.0 and the RFC allow.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gateway.http.openapi_answers import (
    CACHED,
    CALL_HEADERS,
    COUNTED,
    HEADERS,
    NO_STORE,
    OXP_VERSION,
    REQUEST_ID,
    RESPONSES,
    json_of,
    refusals,
)
from gateway.http.openapi_schemas import ANY_OBJECT, SCHEMAS, TEXT, schema_ref
from gateway.jsontext import encode
from gateway.model import JsonObject


class _Form(Struct, frozen=True, kw_only=True):
    """One dialect: the schemas of what it takes and gives. `oxp_version`: it carries the version in that header."""

    prefix: str
    title: str
    request: str
    result: str
    tools: str
    oxp_version: bool = False


FORMS = (
    _Form(prefix="rfc", title="the RFC", request="RfcCall", result="RfcResult", tools="RfcTools"),
    _Form(prefix="otc", title="OTC 1.0", request="OtcCall", result="EnvelopedResult", tools="OtcTools"),
    _Form(prefix="oxp", title="OXP 1.0, flat", request="Call", result="Result", tools="OxpTools", oxp_version=True),
    _Form(
        prefix="oxp-env",
        title="OXP 1.0, enveloped",
        request="OxpEnvelopedCall",
        result="EnvelopedResult",
        tools="OxpEnvelopedTools",
    ),
    _Form(prefix="lc", title="the LangChain family", request="LcCall", result="LcResult", tools="LcTools"),
)


BY_TOKEN, BY_KEY = ("bearer",), ("oxp_key", "otc_key")
CREDENTIALS: JsonObject = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "oxp_key": {"type": "apiKey", "in": "header", "name": "OXP-API-Key"},
    "otc_key": {"type": "apiKey", "in": "header", "name": "OTC-API-Key"},
}


def document(version: str, public_url: str | None, credentials: Iterable[str] = CREDENTIALS) -> bytes:
    """Builds the document.

    `version` is the gateway's own, `public_url` where callers reach it, `credentials` the names of those of which they
    need one.
    """
    paths = {
        "/health": {"get": _health("Whether the gateway takes calls", "health")},
        "/openapi.json": {"get": _description()},
        "/tools": {"get": _listing(FORMS, "in the dialect of the request", "list_tools")},
        "/tools/call": {"post": _calling(FORMS, "in the dialect of the request", "call_tool")},
        "/call": {"post": _calling(FORMS, "in the dialect of the request, at the path of the examples", "call")},
        "/calls/{call_id}": {"get": _looking(), "delete": _cancelling()},
        "/challenges/{token}": {"get": _challenge()},
    }
    for form in FORMS:
        paths |= _prefixed(form)
    body: JsonObject = {
        "openapi": "3.1.1",
        "info": {"title": "Toolgate", "version": version, "summary": "One HTTP surface for a fleet of tool servers."},
        "paths": paths,
        "components": {
            "securitySchemes": {name: CREDENTIALS[name] for name in credentials},
            "headers": HEADERS,
            "responses": RESPONSES,
            "schemas": SCHEMAS,
        },
        "security": [{name: []} for name in credentials],
    }
    if public_url is not None:
        body["servers"] = [{"url": public_url}]
    return encode(body)


def _prefixed(form: _Form) -> JsonObject:
    at, name = f"/{form.prefix}", form.prefix.replace("-", "_")
    spoken = f"in {form.title}"
    return {
        f"{at}/health": {"get": _health(f"Whether the gateway takes calls, {spoken}", f"{name}_health")},
        f"{at}/tools": {"get": _listing((form,), spoken, f"{name}_list_tools")},
        f"{at}/tools/call": {"post": _calling((form,), spoken, f"{name}_call_tool")},
        f"{at}/call": {"post": _calling((form,), f"{spoken}, at the path of the examples", f"{name}_call")},
    }


def _listing(forms: tuple[_Form, ...], spoken: str, operation_id: str) -> JsonObject:
    headers = CACHED | COUNTED | _version_header(forms)
    return {
        "operationId": operation_id,
        "summary": f"The tools the caller may use, {spoken}",
        "parameters": [*_version_parameter(forms), _parameter("If-None-Match", "header", TEXT, required=False)],
        "responses": {
            "200": {
                "description": "Every version of every tool, per tool ascending.",
                "headers": headers,
                "content": json_of(_one_of(form.tools for form in forms)),
            },
            "304": {"description": "The catalogue is the one the caller already has.", "headers": headers},
            **refusals(401, 404, 413, 429, 503),
        },
    }


def _calling(forms: tuple[_Form, ...], spoken: str, operation_id: str) -> JsonObject:
    return {
        "operationId": operation_id,
        "summary": f"Calls a tool, {spoken}",
        "parameters": [*_version_parameter(forms), _parameter("Prefer", "header", PREFER, required=False)],
        "requestBody": {"required": True, "content": json_of(_one_of(form.request for form in forms))},
        "responses": {
            "200": {
                "description": "The tool ran, or may have run: its value, or its error with `success: false`.",
                "headers": CALL_HEADERS | _version_header(forms),
                "content": json_of(_one_of(form.result for form in forms)),
            },
            "202": {
                "description": "The tool still runs, and the caller did not want to wait: `success` is false.",
                "headers": CALL_HEADERS | _version_header(forms),
                "content": json_of(_one_of(form.result for form in forms)),
            },
            **refusals(401, 403, 404, 413, 415, 422, 429),
        },
    }


def _looking() -> JsonObject:
    return {
        "operationId": "look_at_call",
        "summary": "The result of a call of the caller's, in the dialect of that call",
        "parameters": [_parameter("call_id", "path", KEPT_ID, required=True)],
        "responses": {
            "200": _kept("It is over: what any repetition of it gets."),
            "202": _kept("It still runs."),
            **refusals(401, 404, 429),
        },
    }


def _cancelling() -> JsonObject:
    return {
        "operationId": "cancel_call",
        "summary": "Cancels a call of the caller's, and tells the tool server if that can be told",
        "parameters": [_parameter("call_id", "path", KEPT_ID, required=True)],
        "responses": {
            "202": _kept("It is over, if it was not before. The tool may have run."),
            **refusals(401, 404, 429),
        },
    }


def _kept(description: str) -> JsonObject:
    content = json_of(_one_of(form.result for form in FORMS))
    return {"description": description, "headers": CALL_HEADERS | _version_header(FORMS), "content": content}


def _health(summary: str, operation_id: str) -> JsonObject:
    answer = {"headers": OXP_VERSION | NO_STORE | REQUEST_ID, "content": json_of(schema_ref("Health"))}
    return {
        "operationId": operation_id,
        "summary": summary,
        "security": [],
        "responses": {
            "200": {"description": "It does."} | answer,
            "503": {"description": "Not yet, or no longer: it is starting or draining."} | answer,
            **refusals(),
        },
    }


def _challenge() -> JsonObject:
    return {
        "operationId": "check_challenge",
        "summary": "How an authorization stands that a call asked for",
        "security": [],
        "parameters": [_parameter("token", "path", TEXT, required=True)],
        "responses": {
            "200": {
                "description": "The state; an unknown or expired token has failed.",
                "headers": OXP_VERSION | NO_STORE | COUNTED,
                "content": json_of(schema_ref("ChallengeStatus")),
            },
            **refusals(429),
        },
    }


def _description() -> JsonObject:
    described = {"description": "OpenAPI 3.1.", "headers": REQUEST_ID, "content": json_of(ANY_OBJECT)}
    return {
        "operationId": "describe",
        "summary": "This document",
        "security": [],
        "responses": {"200": described, **refusals(404)},
    }


def _version_parameter(forms: tuple[_Form, ...]) -> list[JsonObject]:
    if not any(form.oxp_version for form in forms):
        return []
    return [_parameter("OXP-Version", "header", {"enum": ["1.0", "1.0.0", "1"]}, required=False)]


def _version_header(forms: tuple[_Form, ...]) -> JsonObject:
    return OXP_VERSION if any(form.oxp_version for form in forms) else {}


def _parameter(name: str, place: str, schema: JsonObject, *, required: bool) -> JsonObject:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _one_of(names: Iterable[str]) -> JsonObject:
    # The forms overlap (an LC result may be a flat one), so that oneOf would refuse what fits two.
    distinct = [schema_ref(name) for name in dict.fromkeys(names)]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


PREFER: JsonObject = TEXT | {"examples": ["respond-async", "wait=10", "respond-async, wait=2"]}
KEPT_ID: JsonObject = TEXT | {
    "description": "The Toolgate-Call-Id of its answer; or the caller's own call_id, if the call named no user but the "
    "one that the credential names."
}
