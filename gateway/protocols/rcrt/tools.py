"""The tools of an RCRT workspace: `tool.code.v1` breadcrumbs, and the older `tool.catalog.v1` that sums them up.

As the runners of November 2025 read them; older names of the members are understood too.
"""

from __future__ import annotations

from gateway.core import tool_names as naming
from gateway.core.jsontext import JsonError, decode, encode
from gateway.core.model import Json, JsonObject, ToolDefinition
from gateway.core.tool_names import DefinitionError
from gateway.protocols.common.fields import string
from gateway.protocols.common.listing import MAX_SHOWN, ListBuilder, Summary, decode_bounds
from gateway.protocols.common.texts import with_visible_texts
from gateway.protocols.rcrt.breadcrumbs import MAX_DEPTH, Breadcrumb, decode_crumb

TOOL_TAG = "tool:"
APPROVED = "approved"  # the newer edition runs nothing without this tag; the older knows none


def tool_name(crumb: Breadcrumb) -> str:
    """What a runner calls the tool. Raises DefinitionError when no request could reach it."""
    tagged = [tag.removeprefix(TOOL_TAG) for tag in crumb.tags if tag.startswith(TOOL_TAG)]
    name = (crumb.context or {}).get("name")
    if not isinstance(name, str) or not name:
        if not tagged:
            raise DefinitionError("neither its context nor its tags name it")
        return tagged[0]
    # A runner looks for the breadcrumb by its tag and for the code by its name.
    if name not in tagged:
        raise DefinitionError(f"its tags do not name it as its context does, {TOOL_TAG}{name[:64]}")
    return name


def is_callable(crumb: Breadcrumb, workspace: str, *, needs_approval: bool) -> bool:
    """Whether a runner would take requests for it."""
    return workspace in crumb.tags and (not needs_approval or APPROVED in crumb.tags)


def read_tool(record: JsonObject, name: str, toolkit: str) -> tuple[ToolDefinition, tuple[str, ...]]:
    """Reads the whole record of a `tool.code.v1`, and warnings about its name. Raises DefinitionError."""
    context = _object(record.get("context"))
    version = string(record.get("semantic_version")) or string(context.get("version"))
    description = string(record.get("description")) or string(context.get("description"))
    definition, warnings = _definition(context, name, version, description, toolkit)
    return with_visible_texts(definition), warnings


def read_catalog(encoded_bounds: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads the text of a list of at most one `tool.catalog.v1`, which holds all tools of a workspace.

    Returns a Summary whose `note` is the id of the breadcrumb, then arrays of ToolDefinition, all of them JSON text.
    """
    builder = ListBuilder(decode_bounds(encoded_bounds))
    try:
        documents = decode(text, MAX_DEPTH)
    except JsonError as exc:
        return (encode(Summary(failure=f"not JSON: {exc}")),)
    if not isinstance(documents, list):
        return (encode(Summary(failure="not a list")),)
    crumb = decode_crumb(documents[0]) if documents else None
    entries = (crumb.context or {}).get("tools") if crumb else None
    for _, entry in builder.numbered(entries if isinstance(entries, list) else []):
        tool = _object(entry)
        name = string(tool.get("name"))
        if not name:
            builder.reject("?", "it has no name")
            continue
        # Its version is always 1.0.0, whatever the tool's own.
        version, description = string(tool.get("version")), string(tool.get("description"))
        try:
            builder.add(_definition(tool, name, version, description, builder.bounds.toolkit)[0])
        except DefinitionError as exc:
            builder.reject(name[:MAX_SHOWN], str(exc))
    return builder.encoded(crumb.id if crumb else "")


def _definition(
    source: JsonObject, name: str, version: str | None, description: str | None, toolkit: str
) -> tuple[ToolDefinition, tuple[str, ...]]:
    # A dot or an @ in a name is part of it, not where a toolkit ends or a version begins: names have neither.
    identity = naming.tool_and_version(naming.word(name), version, toolkit)
    examples = source.get("examples")
    definition = ToolDefinition(
        tool=identity.tool,
        version=identity.version,
        name=naming.published_name(identity.tool),
        description=description or "",
        input_schema=_schema(source, "input", source.get("parameters")),
        output_schema=_schema(source, "output", None),
        remote_id=name,
        examples=examples if isinstance(examples, list) and examples else None,
    )
    return definition, identity.warnings


def _schema(source: JsonObject, which: str, last: Json) -> JsonObject:
    """The first schema there is under its present name or older ones; without one, anything goes."""
    older = _object(source.get("definition"))
    candidates = (source.get(f"{which}_schema"), source.get(f"{which}Schema"), older.get(f"{which}Schema"), last)
    schema: Json = next((candidate for candidate in candidates if candidate is not None), {})
    if not isinstance(schema, dict):
        raise DefinitionError(f"its {which} schema is not an object")
    return schema


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
