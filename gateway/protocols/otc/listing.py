"""Reads an answer to `GET /tools` into definitions, as text, so that another process can do it."""

from __future__ import annotations

from collections import Counter

from gateway.core.jsontext import JsonError, encode
from gateway.core.model import Json
from gateway.core.tool_names import DefinitionError
from gateway.protocols.common import definitions
from gateway.protocols.common import entries as lists
from gateway.protocols.common.listing import MAX_SHOWN, ListBuilder, Summary, decode_bounds, most_as_sent
from gateway.protocols.otc import surface


def read_list(encoded_bounds: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads an answer to `GET /tools`. Returns a Summary, then arrays of ToolDefinition, all of them JSON text."""
    bounds = decode_bounds(encoded_bounds)
    try:
        document, entries = lists.open_list(text, bounds.max_tools + 1, most_as_sent(bounds.max_schema_bytes))
    except (JsonError, DefinitionError) as exc:
        return (encode(Summary(failure=str(exc))),)
    builder, adapted, listed, lists_rfc = ListBuilder(bounds), set[tuple[str, str]](), Counter[str](), False
    for count, entry in builder.numbered(entries):
        lists_rfc = lists_rfc or surface.is_rfc(entry)
        listed[_named(entry).partition("@")[0]] += 1
        try:
            definition, warnings = definitions.read_definition(entry, bounds.toolkit)
        except DefinitionError as exc:
            builder.reject(_named(entry)[:MAX_SHOWN] or f"number {count} of the list", str(exc))
            continue
        if builder.add(definition):
            adapted.update((definition.id, warning) for warning in warnings)
    builder.drop_ambiguous(listed)
    dialect = surface.of_server(document, has_version=bounds.has_version, lists_rfc=lists_rfc)
    is_clear = surface.shows_form(document, has_version=bounds.has_version)
    return builder.encoded(dialect.name if is_clear else surface.EITHER_OXP, tuple(sorted(adapted)))


def _named(entry: Json) -> str:
    """The id of a listed tool, or its name; empty if it has neither."""
    names = (entry.get("id"), entry.get("name")) if isinstance(entry, dict) else ()
    return next((name for name in names if isinstance(name, str) and name), "")
