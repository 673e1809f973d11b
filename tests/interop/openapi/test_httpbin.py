"""httpbin by its own document (Swagger 2.0), and by one of ours: what Flask decodes is what callers sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.interop.openapi.calls import Caller, backend, gateway


def echo_document() -> dict[str, Any]:
    """What httpbin echoes, as its own document does not say."""

    def operation(name: str, **takes: Any) -> dict[str, Any]:
        answers = {"200": {"description": "Echo.", "content": {"application/json": {"schema": {"type": "object"}}}}}
        return {"operationId": name, **takes, "responses": answers}

    strings = {"type": "array", "items": {"type": "string"}}
    parameters = [
        {"name": "segment", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "one[a]", "in": "query", "schema": {"type": "string"}},
        {"name": "many", "in": "query", "schema": strings},
        {"name": "free", "in": "query", "schema": {"type": "object", "additionalProperties": {"type": "string"}}},
    ]
    pairs = {"type": "object", "additionalProperties": {"type": "string"}}
    bodies = {"json": ("application/json", {}), "form": ("application/x-www-form-urlencoded", pairs)}
    posts = {
        f"/anything/{name}": {
            "post": operation(name, requestBody={"required": True, "content": {kind: {"schema": schema}}})
        }
        for name, (kind, schema) in bodies.items()
    }
    paths = {"/anything/{segment}": {"get": operation("query", parameters=parameters)}, **posts}
    return {"openapi": "3.1.0", "info": {"title": "echo", "version": "1"}, "paths": paths}


@pytest.fixture(scope="module")
async def caller(anyio_backend: object, bin_: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Caller]:
    document = tmp_path_factory.mktemp("echo") / "echo.json"
    document.write_text(json.dumps(echo_document()))
    never = {"failures": 0}
    backends = {
        "bin": backend(bin_, f"{bin_}/spec.json", toolkit="Bin", breaker=never),
        "echo": backend(bin_, document, toolkit="Echo", breaker=never),
    }
    async with gateway(backends) as calling:
        yield calling


def test_openapi_62_each_of_its_operations_has_a_name_of_its_own_but_for_those_that_trace(caller: Caller) -> None:
    named = [tool for tool in caller.tools() if tool.startswith("Bin.")]
    assert len(named) == 78 - 5
    assert {"Bin.get_anything", "Bin.post_anything_by_anything", "Bin.get_status_by_codes"} <= set(named)


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
def test_openapi_62_what_is_sent_to_anything_comes_back(caller: Caller, method: str) -> None:
    value = caller.call(f"Bin.{method}_anything_by_anything", {"anything": "a b"}).value
    assert value["method"] == method.upper()
    assert value["url"].endswith("/anything/a%20b")


VALUES = (
    *("get_uuid", "get_image_png", "get_html", "get_xml", "get_encoding_utf8", "get_json"),
    *("get_gzip", "get_deflate"),  # for which nobody has asked
)


@pytest.mark.parametrize("tool", VALUES)
def test_whatever_it_returns_is_a_value(caller: Caller, tool: str) -> None:
    outcome = caller.call(f"Bin.{tool}", {})
    assert outcome.ok, outcome
    assert outcome.value


def test_an_answer_in_a_coding_that_is_not_known_is_broken(caller: Caller) -> None:
    assert caller.call("Bin.get_brotli", {}).code == "broken_answer"


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda name: name not in ("one[a]", "many")
)
SEGMENTS = TEXTS.filter(lambda text: not set(text) & set("/\\.%?#"))
QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "one_a": TEXTS,
        "many": st.lists(TEXTS, min_size=2, max_size=3),
        "free": st.dictionaries(NAMES, TEXTS, min_size=1, max_size=3),
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
any_value = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(segment=SEGMENTS, query=QUERIES)
@any_value
def test_any_query_arrives(caller: Caller, segment: str, query: dict[str, Any]) -> None:
    outcome = caller.call("Echo.query", {"segment": segment, **query})
    assert outcome.ok, outcome
    free = query.pop("free", {})
    expected = {"one[a]" if name == "one_a" else name: value for name, value in query.items()}
    assert outcome.value["args"] == {**expected, **free}


@given(body=JSON)
@any_value
def test_any_json_arrives(caller: Caller, body: Any) -> None:
    assert caller.call("Echo.json", {"body": body}).value["json"] == body


@given(body=st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=4))
@any_value
def test_any_form_arrives(caller: Caller, body: dict[str, str]) -> None:
    assert caller.call("Echo.form", {"body": body}).value["form"] == body
