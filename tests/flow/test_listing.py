"""Listing: what is in a catalogue and in which form. The oracle holds each definition against its dialect's schema."""

from __future__ import annotations

import pytest

from tests.flow.caller import DIALECTS, SCHEMAS, Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config, until
from tests.flow.toolserver import ToolServer, object_of, tool

pytestmark = pytest.mark.anyio

LISTED_S = 120.0  # ten thousand tools; alone on a core 2 s

ALL_IDS = [
    "Calculator.Add@1.0.0",
    "Calculator.Add@1.1.0",
    "Calculator.Divide@1.0.0",
    "Clock.Sleep@1.0.0",
    "Doorbell.Ring@0.1.0",
    "Mail.Search@1.0.0",
    "Notes.Create@1.0.0",
    "Notes.List@1.0.0",
    "Sms.Send@1.0.0",
    "Text.Echo@1.0.0",
]


@every_dialect
async def test_every_version_of_every_tool_is_listed_once_in_ascending_order(demo: Caller, dialect: str) -> None:
    """Spec: OTC 1.0 and OXP 1.0, List Tools: valid definitions, unique ids. Ours: all versions, ascending."""
    assert (await demo.list(dialect)).ids == ALL_IDS


@every_dialect
async def test_an_empty_catalogue_is_an_empty_list(start: Start, dialect: str) -> None:
    """Spec: OXP 1.0, List Tools."""
    caller = (await start(config({}))).caller
    assert (await caller.list(dialect)).tools == []


NO_PROMISES = {
    "Typo": {"type": "strnig"},
    "Number": {"properties": 5},
    "Nowhere": {"$ref": "#/$defs/Gone"},
    "Elsewhere": {"items": {"$ref": "https://schemas.example/y"}},
    "Draft": {"$schema": "https://schemas.example/draft", "type": "string"},
}


@every_dialect
async def test_an_invalid_output_schema_is_listed_as_empty(start: Start, server: ToolServer, dialect: str) -> None:
    """Spec: `output_schema` is a JSON Schema. Ours: the tool stays, and values are judged as ever."""
    server.tools = [tool(f"Odd.{name}", output_schema=schema) for name, schema in NO_PROMISES.items()]
    server.tools.append(tool("Odd.Fine", output_schema={"type": "string"}))
    route = {"tools": "*", "backend": "scripted", "validate_output": "fail"}
    gateway = await start(config({"scripted": server.url}, [route]))
    for listed in (await gateway.caller.list(dialect)).tools:
        promised = listed["output"]["value"] if dialect == "rfc" else listed["output_schema"]
        assert promised == ({"type": "string"} if "Fine" in listed["id"] else {}), listed["id"]
    assert gateway.problems_of("scripted") == {}
    for name in NO_PROMISES:
        assert (await gateway.caller.call(dialect, f"Odd.{name}")).result["success"] is False


@every_dialect
async def test_a_tool_that_returns_nothing_is_listed_so(demo: Caller, dialect: str) -> None:
    """Spec: RFC, section 4.1: mode `null`; OTC 1.0 and OXP 1.0, ToolDefinition: a null `output_schema`."""
    [ring] = [found for found in (await demo.list(dialect)).tools if found["id"] == "Doorbell.Ring@0.1.0"]
    if dialect == "rfc":
        assert ring["output"] == {"available_modes": ["null", "error"]}
    else:
        assert ring["output_schema"] is None


@pytest.mark.parametrize(
    ("dialect", "schema"), [("otc", "otc://1.0"), ("oxp-env", "urn:oxp:1.0"), ("rfc", SCHEMAS["rfc"])]
)
@pytest.mark.parametrize("path", ["/tools", None])
async def test_a_get_body_may_name_the_version(demo: Caller, dialect: str, schema: str, path: str | None) -> None:
    """Spec: OTC 1.0, Versioning: `$schema` in the body, even of a GET."""
    answer = await demo.list(dialect, path, body={"$schema": schema})
    assert answer.document["$schema"] == schema
    assert answer.ids == ALL_IDS


@pytest.mark.parametrize("content", [b"{}", b"null", b"[]", b"not json", b"\xff", b'{"$schema'])
@every_dialect
async def test_a_get_body_that_says_nothing_is_harmless(demo: Caller, dialect: str, content: bytes) -> None:
    """Ours: one real caller sends `{}` with every GET."""
    answer = await demo.send(dialect, "list", "GET", f"/{dialect}/tools", content=content)
    assert answer.ids == ALL_IDS


async def test_a_get_body_without_end_is_refused(demo: Caller) -> None:
    """Ours: 16 KiB are enough for one short member."""
    answer = await demo.send("otc", "list", "GET", "/otc/tools", content=b" " * (16 * 1024 + 1))
    assert answer.status == 413


async def test_a_head_request_has_the_head_of_the_list(demo: Caller) -> None:
    """Spec: RFC 9110, 9.3.2."""
    tag = (await demo.list("oxp")).headers["etag"]
    answer = await demo.send("oxp", "list", "HEAD", "/oxp/tools", headers={"if-none-match": tag})
    assert answer.status == 304


@pytest.mark.parametrize("many", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_many_tools_are_listed_in_every_dialect(start: Start, server: ToolServer, many: int) -> None:
    """Ours: ten thousand within a second or so of each other; the first list of a dialect is the dear one."""
    schema = object_of(place={"type": "string", "maxLength": 100}, zoom={"type": "integer", "minimum": 1})
    server.tools = [tool(f"Map.Show{number:05}", input_schema=schema) for number in range(many)]
    running = await start(config({"scripted": server.url}))
    # A slow machine is ready before it has listed.
    await until(lambda: running.gateway.catalogue.status("scripted").up, LISTED_S)
    caller = running.caller
    expected = [definition["id"] for definition in server.tools]
    for dialect in DIALECTS:
        assert (await caller.list(dialect)).ids == expected
    assert (await caller.call("oxp", f"Map.Show{many - 1:05}", {"place": "Oslo", "zoom": 3})).value == {
        "place": "Oslo",
        "zoom": 3,
    }
