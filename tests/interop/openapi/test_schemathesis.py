"""Schemathesis calls the tools of an API that misbehaves, through the gateway: whatever breaks, its answers are right.

It works by the document of the gateway's own HTTP surface, in which the arguments of a call are narrowed to the tools
that there are and to what each takes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests import plainhttp
from tests.interop.openapi.calls import Caller, backend, gateway
from tests.interop.openapi.conftest import KEY
from tests.support.fuzzing import fuzz

SLOW = ("Notes.wrong_endless",)  # a second each
EXAMPLES = 100


@pytest.fixture(scope="module")
async def caller(anyio_backend: object, notes: str) -> AsyncIterator[Caller]:
    document = f"{notes}/openapi.json"
    api = backend(notes, document, toolkit="Notes", auth={"bearer": KEY}, timeout="2s", breaker={"failures": 0})
    async with gateway({"notes": api}) as calling:
        yield calling


def test_no_call_is_answered_with_anything_that_the_document_of_the_gateway_does_not_have(
    caller: Caller, notes: str, tmp_path: Path
) -> None:
    tools = {name: tool for name, tool in caller.tools().items() if name not in SLOW}
    with plainhttp.client(base_url=caller.log.url) as http:
        document = http.get("/openapi.json").json()
    fuzz(narrowed(document, tools), caller.log.url, tmp_path, examples=EXAMPLES)
    with plainhttp.client() as http:
        ran = http.get(f"{notes}/runs").json()
    assert len(ran) > len(tools) * 0.8, sorted(ran)


def narrowed(document: dict[str, Any], tools: dict[str, Any]) -> dict[str, Any]:
    """A document with one path for calls, and a schema for each tool."""
    schemas = document["components"]["schemas"]
    branches = []
    for name, tool in tools.items():
        # What a schema refers to stands in itself, and in a document apart.
        takes = without_formats(tool["input_schema"])
        takes = json.loads(json.dumps(takes).replace("#/$defs/", f"#/components/schemas/{name}."))
        schemas |= {f"{name}.{key}": schema for key, schema in takes.pop("$defs", {}).items()}
        properties = {"tool_id": {"const": name}, "input": takes}
        branches.append({"type": "object", "properties": properties, "required": ["tool_id"]})
    path = "/oxp/tools/call"
    document["paths"] = {path: document["paths"][path]}
    content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    content["schema"] = {"anyOf": branches}
    return document


def without_formats(schema: Any) -> Any:
    """A schema without formats, which only describe (JSON Schema 2020-12); Schemathesis has them bind."""
    if isinstance(schema, dict):
        return {key: without_formats(inner) for key, inner in schema.items() if key != "format"}
    return [without_formats(inner) for inner in schema] if isinstance(schema, list) else schema
