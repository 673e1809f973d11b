"""Whatever an OpenAPI document describes, what its tools list can be sent, and what is left out has a reason.

Documents are made of references (to something, nothing, or each other), styles, bodies, and members that are odd.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gateway.core.errors import GatewayError
from gateway.core.jsontext import encode
from gateway.protocols.common.listing import decode_summary
from gateway.protocols.openapi.document.plan import OperationTool
from gateway.protocols.openapi.document.requests import request_of
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.schemas import CompiledSchema, SchemaError
from tests.unit.protocols.openapi.document.documents import root, terms

STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
TYPES = (
    *("application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"),
    *("application/json-patch+json", "application/merge-patch+json", "application/octet-stream"),
)
NAMES = ("a", "b", "c", "d")
ODD: tuple[Any, ...] = (None, [], {}, "text", 0, True, {"$ref": "#/components/nothing"}, {"$ref": 1}, {"$ref": "#"})
# A value may say what a style cannot, however good its schema is.
OF_VALUES = ("is empty", "is required", "is too long")
NULL_ITEM = "has null"  # in an array of a form or deepObject, whose schemas are listed as they are


class Maker:
    """Makes the parts of one document."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.oddness = self.rng.choice((0.0, 0.0, 0.02, 0.1))

    def odd(self, good: Any) -> Any:
        return self.rng.choice(ODD) if self.rng.random() < self.oddness else good

    def schema(self, depth: int = 0) -> Any:
        pick = self.rng.random()
        if pick < 0.15 or depth > 3:
            return {"$ref": f"#/components/schemas/{self.rng.choice((*NAMES, 'Nowhere'))}"}
        return self.odd(self.rng.choice((self.scalar, self.scalar, self.array, self.object, self.branches))(depth + 1))

    def scalar(self, _: int) -> Any:
        kind = self.rng.choice(("string", "integer", "number", "boolean", ["string", "null"]))
        more = {"nullable": True} if self.rng.random() < 0.2 else {}
        return {"type": kind, **more} if self.rng.random() < 0.9 else {"enum": ["x", "y", None]}

    def array(self, depth: int) -> Any:
        kind = {"type": "array"} if self.rng.random() < 0.8 else {}
        return {**kind, "items": self.odd(self.schema(depth))}

    def object(self, depth: int) -> Any:
        found: Any = {"type": "object", "properties": {name: self.schema(depth) for name in self.some(NAMES)}}
        if self.rng.random() < 0.5:
            found["required"] = self.odd(self.some(NAMES))
        if self.rng.random() < 0.4:
            found["additionalProperties"] = self.rng.choice((True, False, self.schema(depth)))
        return found

    def branches(self, depth: int) -> Any:
        keyword = self.rng.choice(("anyOf", "oneOf", "allOf"))
        return {keyword: self.odd([self.schema(depth) for _ in range(self.rng.choice((1, 2, 2, 3)))])}

    def some(self, names: tuple[str, ...]) -> list[str]:
        return self.rng.sample(names, self.rng.randrange(len(names)))

    def parameter(self, name: str, where: str) -> Any:
        node: Any = {"name": name, "in": where, "required": where == "path" or self.rng.random() < 0.3}
        if self.rng.random() < 0.1:
            node["content"] = {self.rng.choice(("application/json", "text/plain")): {"schema": self.schema()}}
        else:
            node["schema"] = self.schema()
            node["style"] = self.odd(self.rng.choice(STYLES[where]))
            if self.rng.random() < 0.5:
                node["explode"] = self.rng.random() < 0.5
        return self.odd(node)

    def body(self) -> Any:
        content: Any = {}
        for kind in self.rng.sample(TYPES, self.rng.choice((1, 1, 2))):
            described: Any = {"schema": self.schema()}
            if self.rng.random() < 0.4:
                styles = {name: {"style": self.rng.choice(STYLES["query"])} for name in self.some(NAMES)}
                described["encoding"] = self.odd(styles)
            content[kind] = self.odd(described)
        return self.odd({"required": self.rng.random() < 0.5, "content": self.odd(content)})

    def operation(self, number: int) -> tuple[str, Any]:
        places = [("id", "path"), ("q", "query"), ("r[x]", "query"), ("X-A", "header"), ("k", "cookie")]
        listed = [self.parameter(*place) for place in places if self.rng.random() < 0.6]
        node: Any = {"parameters": self.odd(listed), "responses": self.odd({"200": self.odd({"description": ""})})}
        if self.rng.random() < 0.6:
            node["requestBody"] = self.body()
        item = {"$ref": f"#/x-parts/{number}"} if self.rng.random() < 0.3 else self.odd(node)
        query = self.rng.choice(("", "", "?v=1", "#one"))
        return f"/{number}/{{id}}/end{query}", {"post": item, "node": node}

    def document(self) -> Any:
        made = dict(self.operation(number) for number in range(4))
        parts = {path.split("/")[1]: item.pop("node") for path, item in made.items()}
        schemas = {name: self.schema() for name in NAMES}
        more: Any = {"components": {"schemas": schemas}, "x-parts": parts}
        return root(made, self.rng.choice(("3.0.3", "3.1.0", "3.2.0")), **more)


class NoValueError(Exception):
    """A schema of which no value is found."""


def value_of(schema: Any, definitions: Any, rng: Random, depth: int = 0) -> Any:
    """A value that a schema may allow, of short plain texts, and with as many members as it tells."""
    if depth > 12:
        raise NoValueError
    if not isinstance(schema, dict):
        return "x"
    if "$ref" in schema:
        return value_of(definitions[schema["$ref"].rpartition("/")[2]], definitions, rng, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return value_of(rng.choice(schema[keyword]), definitions, rng, depth + 1)
    if "allOf" in schema:
        values = [value_of(one, definitions, rng, depth + 1) for one in schema["allOf"]]
        objects = [one for one in values if isinstance(one, dict)]
        return {name: one for each in objects for name, one in each.items()} if len(objects) > 1 else values[0]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "array":
        items = schema.get("items", {"type": "string"})
        return [value_of(items, definitions, rng, depth + 1) for _ in range(rng.choice((1, 2)))]
    if kind == "object":
        return _object(schema, definitions, rng, depth)
    texts = {"contentEncoding": "YQ=="}
    text = texts["contentEncoding"] if "contentEncoding" in schema else "x"
    return {"string": text, "integer": 7, "number": 1.5, "boolean": True, "null": None}[kind]


def _object(schema: Any, definitions: Any, rng: Random, depth: int) -> Any:
    required, properties = schema.get("required", ()), schema.get("properties", {})
    more = schema.get("additionalProperties", {"type": "string"})
    found: Any = {}
    for name in {**dict.fromkeys(required), **properties}:
        if name in required or (depth < 8 and rng.random() < 0.6):
            found[name] = value_of(properties.get(name, more), definitions, rng, depth + 1)
    if more is not False and rng.random() < 0.3:
        found["more"] = value_of(more, definitions, rng, depth + 1)
    return found


def check(seed: int) -> tuple[int, int]:
    """Reads a document and calls its tools. Returns how many there are, and how many calls were sent."""
    maker = Maker(seed)
    document = maker.document()
    said = terms(methods=("ALL",), deep_arrays=maker.rng.choice(("repeat", "brackets", "indexes")))
    first, *parts = read_operations(encode(said), encode(document))
    summary, read = decode_summary(first), decoder()
    tools = [tool for part in parts for tool in read(part)]
    assert summary.failure == "", seed
    assert all(one.reason and "not understood" not in one.reason for one in summary.rejected), (seed, summary.rejected)
    assert len(tools) + len(summary.rejected) == len(document["paths"]), (seed, summary.rejected)
    return len(tools), sum(_sent(tool, maker.rng, seed) for tool in tools)


def _sent(tool: OperationTool, rng: Random, seed: int) -> int:
    try:
        compiled = CompiledSchema.compile(tool.input_schema)
    except SchemaError as exc:
        assert "refers to itself" in exc.reason, (seed, exc)  # noqa: PT017 - a document may say so
        return 0
    sent = 0
    for _ in range(4):
        try:
            arguments = value_of(tool.input_schema, tool.input_schema.get("$defs", {}), rng)
        except NoValueError:
            continue
        if not compiled.is_valid(arguments):
            continue
        try:
            request_of(tool.plan, arguments, "call-1")
        except GatewayError as refused:
            wrong = (refused.parameters or {}).values()
            plan = encode(tool.plan)
            takes_any = b"deepObject" in plan or b'"kind":"form"' in plan or b'"kind":"multipart"' in plan
            known = (*OF_VALUES, *([NULL_ITEM] if takes_any else []))
            assert all(text.startswith(known) for text in wrong), (seed, tool.remote_id, arguments, wrong)
        else:
            sent += 1
    return sent


@pytest.mark.parametrize("cases", [40, pytest.param(20_000, marks=pytest.mark.soak)])
def test_what_tools_list_can_be_sent_and_what_is_left_out_has_a_reason(cases: int) -> None:
    tools = sent = 0
    for seed in range(cases):
        more_tools, more_sent = check(seed)
        tools, sent = tools + more_tools, sent + more_sent
    assert tools > cases  # else this shows little
    assert sent > cases
