"""Checks of discovery: the breadcrumbs that describe tools."""

from __future__ import annotations

import json
from collections import Counter

from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.schemas import is_schema
from toolgate_conformance.servers.rcrt.documents import TOOLS
from toolgate_conformance.servers.rcrt.server import CATALOG, CODE, WORKSPACE, RcrtServer, context_in, schema_in

APPROVED = "approved"

check: Registry[RcrtServer] = Registry()


@check(50, MUST, TOOLS)
async def tools_are_listed(server: RcrtServer) -> None:
    """The workspace lists its tools.

    Fix: Store one tool.code.v1 tagged workspace:tools per tool; older servers have one tool.catalog.v1.
    """
    for schema_name in (CODE, CATALOG):
        found, answer = await server.entries(schema_name=schema_name, tag=WORKSPACE, limit=1)
        if found:
            return
    answer.must(False, f"A {CODE} or a {CATALOG} with the tag {WORKSPACE}.")


@check(51, MUST, TOOLS)
async def tools_are_named(server: RcrtServer) -> None:
    """Each tool has one unique name, in its context and in its `tool:` tag.

    Fix: Use the same name in both: the runner finds the breadcrumb by its tag and the code by its name.
    """
    names = Counter[str]()
    for record, answer in await server.tools():
        name, tags = context_in(record).get("name"), record.get("tags")
        answer.must(isinstance(name, str) and name != "", "A name in `context.name`.")
        answer.must(isinstance(tags, list) and f"tool:{name}" in tags, f"The tag tool:{name}.")
        names[str(name)] += 1
        answer.must(names[str(name)] == 1, f"Only one tool called {name}.")


@check(52, MUST, TOOLS)
async def tools_have_schemas(server: RcrtServer) -> None:
    """The schemas of each tool are valid JSON Schema, and its input is an object.

    Fix: Write an input_schema of type object, and a valid output_schema.
    """
    for record, answer in await server.tools():
        context = context_in(record)
        given = schema_in(context, "input")
        answer.must(isinstance(given, dict), f"An input schema for {context.get('name')}.")
        answer.must(given.get("type") == "object", f"An input schema of type object for {context.get('name')}.")
        for schema in (given, schema_in(context, "output")):
            is_valid = schema is None or is_schema(schema)
            answer.must(is_valid, f"A valid JSON Schema, not {json.dumps(schema)[:200]}.")


@check(53, SHOULD, TOOLS)
async def tools_are_described(server: RcrtServer) -> None:
    """Each tool has a description.

    Fix: Describe what the tool does: models choose tools by their descriptions.
    """
    for record, answer in await server.tools():
        found = record.get("description") or context_in(record).get("description")
        answer.must(isinstance(found, str) and found != "", f"A description of {context_in(record).get('name')}.")


@check(54, SHOULD, TOOLS)
async def tools_are_approved(server: RcrtServer) -> None:
    """The tools of --call are listed, and approved if the server approves tools.

    Fix: Tag the tool `approved` and restart the runner, which loads approved tools only.
    """
    server.allowed()
    tools = await server.tools()
    tags = {str(context_in(record).get("name")): record.get("tags") or [] for record, _ in tools}
    is_asked = any(APPROVED in each for each in tags.values())
    for call in server.calls:
        answer = tools[0][1]
        answer.must(call.tool in tags, f"A {CODE} called {call.tool}.")
        answer.must(not is_asked or APPROVED in tags[call.tool], f"The tag `approved` on {call.tool}.")
