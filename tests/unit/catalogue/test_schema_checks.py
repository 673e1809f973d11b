"""Schemas that take long to judge: another process does it, and what takes it too long is left out alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.catalogue import schema_checks
from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.evaluation import UNEVALUATED, evaluate
from gateway.core.errors import GatewayError
from gateway.core.model import Listing, ToolDefinition
from gateway.offload import Offload
from tests.unit.catalogue.asking import Hours, ToolServer, one_backend, tool
from tests.unit.schemas.compiling import errors_now

pytestmark = pytest.mark.anyio

SLOW = {f"p{number}": {"pattern": f"\\p{{L}}{{{20 + number}}}"} for number in range(20)}  # 0.2 s
APART = {"pattern": "^(x|y)$"}  # of which the text does not tell that it is quick
REFERRING = {"properties": {"a": {"$ref": "#/$defs/b"}, "z": APART}, "$defs": {"b": {"type": "string"}}}


@pytest.fixture
async def offload() -> AsyncIterator[Offload]:
    offload = Offload(memory_bytes=512 * 1024 * 1024)
    yield offload
    await offload.aclose()


def listing(*tools: ToolDefinition) -> Listing:
    return Listing(tools=tools)


async def test_a_schema_is_judged_the_same_in_either_process(offload: Offload) -> None:
    """Of the slow one nothing is compiled here; the other process does what is asked about it."""
    server = ToolServer("crm")
    tools = [
        tool("A.Plain", {"properties": {"a": {"type": "string"}}}),
        tool("A.Referring", REFERRING),
        tool("A.Dangling", {"properties": {"a": {"$ref": "#/$defs/nowhere"}, "z": APART}}),
        tool("A.Broken", {"type": "string"} | APART),
        tool("A.Pattern", {"properties": {"a": {"pattern": "^(a+)$"}}}),
    ]
    here = await evaluate(one_backend(server), listing(*tools), UNEVALUATED)
    apart = await evaluate(one_backend(server), listing(*tools), UNEVALUATED, offload)
    assert list(here.by_id) == list(apart.by_id) == [definition.id for definition in tools]
    assert here.rejected == apart.rejected
    assert {rejected.id for rejected in here.rejected} == {"A.Dangling@1.0.0", "A.Broken@1.0.0"}
    for one, other in zip(here.tools, apart.tools, strict=True):
        assert one.definition == other.definition
        assert errors_now(one.schema, {"a": 1}, 7) == errors_now(other.schema, {"a": 1}, 7)
    assert [entry.digest for entry in here.by_id.values()] == [entry.digest for entry in apart.by_id.values()]


async def test_schemas_that_were_checked_where_they_were_made_are_not_checked_again(offload: Offload) -> None:
    slow = replace(tool("A.Slow", {"properties": SLOW}), output_schema={"properties": SLOW}, is_checked=True)
    await offload.aclose()  # it could not be asked
    evaluation = await evaluate(
        one_backend(ToolServer("crm"), max_schema_bytes=100_000), listing(slow), UNEVALUATED, offload
    )
    (published,) = evaluation.tools
    assert published.definition.input_schema is slow.input_schema
    assert published.definition.output_schema is slow.output_schema


async def test_a_slow_schema_alone_is_left_out(offload: Offload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_checks, "BATCH_CPU_S", 0.1)
    monkeypatch.setattr(schema_checks, "TOOL_CPU_S", 0.1)
    tools = [tool("A.Slow", {"properties": SLOW}), tool("A.Referring", REFERRING)]
    evaluation = await evaluate(
        one_backend(ToolServer("crm"), max_schema_bytes=100_000), listing(*tools), UNEVALUATED, offload
    )
    assert [(one.id, one.reason) for one in evaluation.rejected] == [("A.Slow@1.0.0", "It takes too long to check.")]
    assert [published.id for published in evaluation.tools] == ["A.Referring@1.0.0"]


async def test_unchecked_schemas_are_checked_the_next_time(offload: Offload, monkeypatch: pytest.MonkeyPatch) -> None:
    source, referring = one_backend(ToolServer("crm")), listing(tool("A.Referring", REFERRING))
    monkeypatch.setattr(schema_checks, "LISTING_S", -1.0)
    evaluation = await evaluate(source, referring, UNEVALUATED, offload)
    assert (evaluation.complete, evaluation.tools, len(evaluation.rejected)) == (False, [], 1)
    monkeypatch.undo()
    evaluation = await evaluate(source, referring, evaluation, offload)
    assert (evaluation.complete, [published.id for published in evaluation.tools]) == (True, ["A.Referring@1.0.0"])


async def test_schemas_that_would_grow_are_listed_as_sent(offload: Offload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_checks, "MAX_GROWN_BYTES", 1000)
    shared = {"enum": ["x" * 100] * 3, "uniqueItems": True}
    schema: dict[str, Any] = {
        "properties": {f"p{number}": {"$ref": "#/$defs/b"} for number in range(9)},
        "$defs": {"b": shared},
    }
    schema["properties"]["z"] = APART
    evaluation = await evaluate(one_backend(ToolServer("crm")), listing(tool("A.B", schema)), UNEVALUATED, offload)
    assert evaluation.tools[0].definition.input_schema == schema


PLAIN = [
    {"properties": {"a": {"type": "string"}}},
    {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}},
    {"properties": {"a": {"pattern": "^[+]?[0-9]{7,15}$"}}},
]
OTHERS = [
    {"properties": {"a": {"pattern": "[a-z]{999}"}}},
    {"properties": {"a": {"pattern": r"\p{L}{99}"}}},
    {"properties": {"a": {"pattern": "(a|b)"}}},
    {"properties": {"a": {"pattern": "a{99}{99}"}}},
    {"patternProperties": {"a": {}}},
    {"properties": {f"p{number}": {"pattern": "a"} for number in range(5)}},
    {"allOf": [{"$ref": "#/$defs/b"}] * 20, "$defs": {"b": {}}},
    {"properties": {"a": {"description": "x" * 5000}}},
    {"$dynamicRef": "#", "items": [{"$ref": "#"}] * 30},
]


@pytest.mark.parametrize(("schema", "is_apart"), [(it, False) for it in PLAIN] + [(it, True) for it in OTHERS], ids=str)
async def test_only_what_is_quick_as_its_text_tells_is_judged_here(schema: dict[str, Any], is_apart: bool) -> None:
    """A closed one does nothing that is asked of it."""
    closed = Offload(memory_bytes=0)
    await closed.aclose()
    source, one = one_backend(ToolServer("crm")), listing(tool("A.B", schema))
    if is_apart:
        with pytest.raises(GatewayError):
            await evaluate(source, one, UNEVALUATED, closed)
    else:
        assert (await evaluate(source, one, UNEVALUATED, closed)).tools


class Unchanging(ToolServer):
    """Returns the very same Listing while nothing has changed, as real backends do."""

    same: Listing | None = None

    async def list_tools(self) -> Listing:
        if self.same is None or self.same.tools != tuple(self.tools):
            self.same = await super().list_tools()
        return self.same


async def test_what_has_not_changed_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []

    async def noted(*about: Any) -> Any:
        looked.append(about)
        return await evaluate(*about)

    monkeypatch.setattr("gateway.catalogue.catalogue.evaluate", noted)
    server, hours = Unchanging("crm", tool("A.X")), Hours()
    catalogue = Catalogue([one_backend(server)], clock=lambda: hours.now, sleep=hours.sleep)
    await catalogue.start()
    await hours.until_asleep(1)
    await hours.pass_()
    assert (len(looked), catalogue.status("crm").age_s) == (1, 0.0)
    server.tools = [tool("A.Y")]
    await hours.pass_()
    assert len(looked) == 2
    await catalogue.aclose()
