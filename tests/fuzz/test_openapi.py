"""Schemathesis holds the gateway to what `/openapi.json` says of it.

It makes requests by the document, good ones and bad ones, and looks at every answer: no 5xx, no status, header, type or
body that the document does not have, no way in without a credential.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.protocols.otc import surface as otc_surface
from tests import plainhttp
from tests.support.demonstration import LAST_LINE, Demo, read_screen
from tests.support.fuzzing import fuzz
from tests.support.terminal import TOOLGATE, running

KEPT = "kept-by-the-fuzzer"
UNLIKE = ("rfc", "oxp")  # the dialects that differ most; the path without a prefix takes those of all
# What is said of a path is said of it under its other names, too, by the same lines.
every_path = pytest.mark.parametrize("names", ["once", pytest.param("all", marks=pytest.mark.soak)])


@pytest.fixture(scope="module")
def fleet() -> Iterator[Demo]:
    """A gateway in front of the demonstration fleet, which must not have had to log an error."""
    with running([*TOOLGATE, "demo", "--port", "0"]) as command:
        command.wait_for(LAST_LINE)
        yield read_screen(command.out.decode())
        command.interrupt()
        assert command.ended() == 0
        assert b"ERROR" not in command.err, command.err.decode()
        assert b"Traceback" not in command.err, command.err.decode()


@every_path
def test_unknown_callers_get_what_the_document_says(fleet: Demo, tmp_path: Path, names: str) -> None:
    with plainhttp.client(base_url=fleet.url) as http:
        document = http.get("/openapi.json").json()
    if names == "once":
        # The body of an unknown caller is not read, so that prefixes make no difference.
        _leave_out(document, "/call", *(path for path in document["paths"] if _prefix(path) in otc_surface.DIALECTS))
    fuzz(document, fleet.url, tmp_path)


@every_path
def test_callers_with_a_token_get_what_the_document_says(fleet: Demo, tmp_path: Path, names: str) -> None:
    credential = f"Bearer {fleet.env['TOOLGATE_TOKEN']}"
    with plainhttp.client(base_url=fleet.url, headers={"authorization": credential}) as http:
        document = _of_this_fleet(http)
    if names == "once":
        below = [f"/{prefix}{name}" for prefix in otc_surface.DIALECTS for name in ("/call", "/health")]
        others = [prefix for prefix in otc_surface.DIALECTS if prefix not in UNLIKE]
        alike = [f"/{prefix}{name}" for prefix in others for name in ("/tools", "/tools/call")]
        _leave_out(document, "/call", *below, *alike)
    fuzz(document, fleet.url, tmp_path, "--header", f"Authorization: {credential}")


def _of_this_fleet(http: httpx.Client) -> dict[str, Any]:
    """The document, narrowed to the tools there are and to a call there is: else nothing would reach either."""
    document: dict[str, Any] = http.get("/openapi.json").json()
    tools = [tool["id"] for tool in http.get("/oxp/tools").json()["items"]]
    called = http.post("/oxp/call", json={"tool_id": "Calculator.Add", "call_id": KEPT, "input": {"a": 2, "b": 40}})
    assert called.status_code == 200
    schemas, calls = document["components"]["schemas"], document["paths"]["/calls/{call_id}"]
    schemas["ToolIdAsked"] = {"enum": [*tools, "Nobody.HasThis"]}
    assert _replace(schemas, "tool_id", {"$ref": "#/components/schemas/ToolIdAsked"}) > 0
    for operation in calls.values():
        (parameter,) = operation["parameters"]
        parameter["schema"]["examples"] = [KEPT, called.headers["toolgate-call-id"], "never-made"]
    return document


def _prefix(path: str) -> str:
    return path.split("/")[1]


def _leave_out(document: dict[str, Any], *paths: str) -> None:
    """Leaves out these paths: a run takes half a second of computing for each operation, for a call three."""
    for path in paths:
        del document["paths"][path]


def _replace(node: Any, name: str, schema: dict[str, Any]) -> int:
    """Puts the schema in the place of all properties of that name; how many there were."""
    found = 0
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and name in node["properties"]:
            node["properties"][name] = schema
            found = 1
        found += sum(_replace(each, name, schema) for each in node.values())
    elif isinstance(node, list):
        found = sum(_replace(each, name, schema) for each in node)
    return found
