"""One tool: all that a caller has to know, where it is served, and how its calls went."""

from __future__ import annotations

from gateway.assembly.generation import Generation
from gateway.catalogue.published import PublishedTool, Route
from gateway.console.log import RecentLines
from gateway.console.view import RefusedQuestionError, text_of
from gateway.core import jsontext
from gateway.core.model import JsonObject, Requirements
from gateway.metrics import Metrics
from gateway.metrics.families import TOOL_CALLS

MAX_SCHEMAS_BYTES = 512 * 1024  # both schemas of one tool; a browser draws larger ones too slowly
MAX_VERSIONS = 100


def tool_page(generation: Generation, recent: RecentLines, about: JsonObject) -> JsonObject:
    """Everything about a tool but how often it was called, in its newest version or a given one.

    Raises RefusedQuestionError.
    """
    tool, versions = _find(generation, text_of(about, "name"), text_of(about, "version"))
    definition = tool.definition
    is_too_large = len(jsontext.encode([definition.input_schema, definition.output_schema])) > MAX_SCHEMAS_BYTES
    return {
        "name": definition.tool,
        "version": definition.version,
        "versions": versions,
        "title": definition.title,
        "description": definition.description,
        "backend": tool.route.backend_name,
        "protocol": generation.config.backends[tool.route.backend_name].protocol,
        "dialect_names": {"mcp": definition.name},
        "route": _route(tool.route),
        "requires": _requirements(definition.requires),
        "too_large": is_too_large,
        "input_schema": None if is_too_large else definition.input_schema,
        "output_schema": None if is_too_large else definition.output_schema,
        "seconds": recent.seconds_of(definition.tool),
    }


def outcomes_of(metrics: Metrics, tool: str, backend: str) -> JsonObject:
    """How many calls of a tool ended how, since the start."""
    found: dict[str, int] = {}
    for family, labels, values in metrics.store.read():
        if family is TOOL_CALLS and (labels[2], labels[0]) == (tool, backend) and values[0]:
            found[labels[3]] = found.get(labels[3], 0) + int(values[0])
    return dict(sorted(found.items()))


def _find(generation: Generation, name: str, version: str) -> tuple[PublishedTool, list[str]]:
    """A tool, and all its versions, the newest first. Raises RefusedQuestionError."""
    router = generation.catalogue.router
    toolkit = router.toolkits.get(name.partition(".")[0])
    found = [] if toolkit is None else [each for each in toolkit.tools if each.definition.tool == name]
    if not found:
        raise RefusedQuestionError(404, "There is no such tool.")
    versions = [each.definition.version for each in reversed(found)][:MAX_VERSIONS]
    if not version:
        return found[-1], versions
    tool = next((each for each in found if each.definition.version == version), None)
    if tool is None:
        raise RefusedQuestionError(404, "The tool has no such version.")
    return tool, versions


def _route(route: Route) -> JsonObject:
    return {
        "tools": route.tools,
        "timeout_s": route.timeout_s,
        "scopes": sorted(route.scopes),
        "idempotent": route.idempotent,
        "validate_input": str(route.validate_input),
        "validate_output": str(route.validate_output),
        "forward_headers": [name.decode() for name in route.forward_headers],
    }


def _requirements(requires: Requirements) -> JsonObject:
    """As in OXP 1.0, ToolDefinition.requirements."""
    return {
        "user_id": requires.user_id,
        "secrets": [{"id": name} for name in requires.secrets],
        "authorization": [
            {"id": each.id, **({} if each.scopes is None else {"scopes": list(each.scopes)})}
            for each in requires.authorization
        ],
    }
