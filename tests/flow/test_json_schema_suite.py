"""Draft 7 and 2020-12 as their official tests have them, from the definition of a tool to the check of a call.

Each schema is listed by a tool server twice: as what a tool returns, and, in a resource of its own, as what one of its
parameters takes. A file is one test. They are those of github.com/json-schema-org/JSON-Schema-Test-Suite.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.catalogue.evaluation import UNEVALUATED, evaluate
from gateway.catalogue.published import PublishedTool
from gateway.core.model import Json, JsonObject, Listing
from gateway.protocols.common.definitions import read_definition
from gateway.schemas import CompiledSchema, SchemaError
from tests.flow.gateways import config, running
from tests.flow.refused_schemas import REFUSED
from tests.flow.toolserver import tool, tool_server
from tests.unit.catalogue.asking import ToolServer, route, source
from tests.unit.schemas.compiling import errors, errors_now, violation

FOLDER = Path(__file__).parents[2] / ".venvs" / "json-schema-suite" / "json" / "tests"
DRAFTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": None}


def files() -> Iterator[tuple[str, str]]:
    """Draft and path of each file of cases; nothing where the suite was not fetched."""
    for draft in DRAFTS:
        for file in sorted((FOLDER / draft).rglob("*.json")):
            yield draft, file.relative_to(FOLDER / draft).as_posix()


def groups(draft: str, file: str) -> list[dict[str, Any]]:
    """Schemas with values that fit or do not; each schema names its draft, as those of that time do."""
    read: list[dict[str, Any]] = json.loads((FOLDER / draft / file).read_text())
    return [group | {"schema": with_draft(group["schema"], draft)} for group in read]


def with_draft(schema: Json, draft: str) -> Json:
    named = DRAFTS[draft]
    return {"$schema": named, **schema} if named and isinstance(schema, dict) else schema


ITSELF = "https://example.com/the-schema-of-the-case"
FILES = list(files())
SAMPLE = {"draft7": "if-then-else.json", "draft2020-12": "anchor.json"}
MANY = 1500  # of the values in these files of each draft; a suite that was not read is no suite passed


def test_the_suite_is_there() -> None:
    if not FOLDER.is_dir():
        pytest.fail("The tests of JSON Schema are missing; `make interop` fetches them.", pytrace=False)
    for draft in DRAFTS:
        cases = [test for of, file in FILES if of == draft for group in groups(of, file) for test in group["tests"]]
        assert len(cases) > MANY * 0.9
    known = {(draft, file) for draft, refused in REFUSED.items() for file in refused}
    assert known <= set(FILES)


def as_parameter(schema: Json) -> dict[str, Any] | None:
    """The schema of arguments of which `value` has to fit this; None where it would not mean the same there."""
    whole: dict[str, Any] = {"type": "object", "required": ["value"]}
    if isinstance(schema, dict):
        whole |= {"$schema": schema["$schema"]} if "$schema" in schema else {}
        if "draft-07" in whole.get("$schema", "") and "$ref" in schema:
            return None  # then its `$id` would be ignored
        schema = {"$id": ITSELF, **schema}
    return whole | {"properties": {"value": schema}}


async def offered(schemas: list[Json]) -> tuple[dict[int, PublishedTool], dict[int, str]]:
    """The tools of a tool server that lists these, by their places, and why others cannot be published."""
    listed = [
        {"id": f"Suite.t{place}", "version": "1.0.0", "input_schema": as_parameter(schema) or {}}
        | ({"output_schema": schema} if isinstance(schema, dict) and schema else {})
        for place, schema in enumerate(schemas)
    ]
    server = ToolServer("suite")
    definitions = tuple(read_definition(tool, "Suite")[0] for tool in listed)
    evaluation = await evaluate(
        source(server, [route(server)], max_schema_bytes=100_000), Listing(tools=definitions), UNEVALUATED
    )
    places = {definition.id: place for place, definition in enumerate(definitions)}
    published = {places[tool.id]: tool for tool in evaluation.tools}
    return published, {places[rejected.id]: rejected.reason for rejected in evaluation.rejected}


def wrong(tool: PublishedTool, schema: Json, data: Json, *, valid: bool) -> list[str]:
    """How a tool, called with a value and returning it, is judged otherwise than the suite says."""
    found = []
    if as_parameter(schema) is not None and (not judged(tool, {"value": data})) is not valid:
        found.append("as an argument")
    if isinstance(schema, dict) and schema and (violation(returned(tool), data) is None) is not valid:
        found.append("as a result")
    return found


def judged(tool: PublishedTool, arguments: JsonObject) -> dict[str, str]:
    """What is said of the arguments of a call, here or by the process that checks what takes long."""
    found = errors_now(tool.schema, arguments, len(msgspec.json.encode(arguments)))
    if found is None:
        return errors(msgspec.json.decode(tool.schema.text), arguments)
    return found


def returned(tool: PublishedTool) -> CompiledSchema:
    """The schema of what a tool returns. Raises SchemaError."""
    assert tool.definition.output_schema is not None
    return CompiledSchema.compile(tool.definition.output_schema)


@pytest.mark.anyio
@pytest.mark.parametrize(("draft", "file"), FILES)
async def test_a_value_is_judged_as_the_suite_says(draft: str, file: str) -> None:
    here = groups(draft, file)
    published, reasons = await offered([group["schema"] for group in here])
    # There a format only describes: no value is wrong for it.
    describes = draft == "draft2020-12" and file.startswith("optional/format/")
    otherwise, refused = [], {}
    for place, group in enumerate(here):
        reason = reasons.get(place)
        for case in group["tests"]:
            try:
                if reason is None:
                    valid = describes or case["valid"]
                    found = wrong(published[place], group["schema"], case["data"], valid=valid)
                    otherwise += [(group["description"], case["description"], how) for how in found]
            except SchemaError as exc:
                reason = exc.reason
        if reason is not None:
            refused[group["description"]] = reason
    assert otherwise == []
    expected = REFUSED[draft].get(file, {})
    assert refused.keys() == expected.keys()
    assert {name for name, reason in refused.items() if expected[name] not in reason} == set()


@pytest.mark.anyio
@pytest.mark.parametrize("draft", DRAFTS)
async def test_a_caller_is_refused_the_values_that_the_suite_says(draft: str) -> None:
    """A sample, through the whole application."""
    called = groups(draft, SAMPLE[draft])
    schemas = [as_parameter(group["schema"]) for group in called]
    tools = [tool(f"Suite.T{place}", input_schema=schema) for place, schema in enumerate(schemas)]
    async with tool_server(*tools) as server, running(config({"suite": server.url})) as gateway:
        for place, group in enumerate(called):
            for case in group["tests"]:
                answer = await gateway.caller.call("otc", f"Suite.T{place}", {"value": case["data"]})
                expected = httpx.codes.OK if case["valid"] else httpx.codes.UNPROCESSABLE_ENTITY
                assert answer.status == expected, (group["description"], case["description"])
