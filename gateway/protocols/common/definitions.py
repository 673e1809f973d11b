"""Tool definitions of the RFC (section 4.1), OTC 1.0, OXP 1.0 and the LangChain family, read and written.

What only the RFC can say travels in the other forms as `x-otc-...` annotations inside `input_schema`, the one open
object that all of them have.
"""

from __future__ import annotations

import re
from typing import Any

from gateway.core import tool_names as naming
from gateway.core.model import AuthorizationRequirement, Json, JsonObject, Requirements, ToolDefinition
from gateway.core.tool_names import DefinitionError
from gateway.protocols.common.fields import string

# Annotation -> the definition's field.
ANNOTATIONS = {
    "x-otc-toolkit-description": "toolkit_description",
    "x-otc-non-inferrable-parameters": "non_inferrable_parameters",
    "x-otc-output-modes": "output_modes",
    "x-otc-output-description": "output_description",
    "x-otc-examples": "examples",
}
ASKABLE_VERSION = re.compile(r"[0-9]+(\.[0-9]+\.[0-9]+)?")
OUTPUT_MODES = ("value", "error", "null")
# Members that may stand beside `parameters` in a wrapper; anything else makes the object a schema itself.
_DEFINITIONS = ("$defs", "definitions")
WRAPPER_MEMBERS = {
    *("parameters", "required", "non_inferrable_parameters", "$schema", "type", "title", "description"),
    *_DEFINITIONS,
    *ANNOTATIONS,
}


class UnreadableTool(dict[str, Any]):
    """A listed tool that cannot be read, but for what this holds: its id, its name. `reason` says why."""

    def __init__(self, names: JsonObject, reason: str) -> None:
        super().__init__(names)
        self.reason = reason


def read_definition(raw: Json, toolkit: str) -> tuple[ToolDefinition, tuple[str, ...]]:
    """Reads one listed tool, and warnings about its name; `toolkit` is for ids without one. Raises DefinitionError."""
    if isinstance(raw, UnreadableTool):
        raise DefinitionError(raw.reason)
    if not isinstance(raw, dict):
        raise DefinitionError("a listed tool is not an object")
    remote_id = raw.get("id", raw.get("name"))
    if not isinstance(remote_id, str) or not remote_id:
        raise DefinitionError("a listed tool has no id")
    raw_version = _version(raw)
    version = raw_version if isinstance(raw_version, str) and raw_version else None
    named = naming.tool_and_version(remote_id, version, toolkit)
    # Only a version that every tool server must understand is asked for; an odd one is left to its latest.
    if version is not None and ASKABLE_VERSION.fullmatch(version) and "@" not in remote_id:
        remote_id = f"{remote_id}@{version}"
    schema, extras = _input(raw)
    output_schema = _output(raw)
    definition = ToolDefinition(
        tool=named.tool,
        version=named.version,
        name=naming.published_name(named.tool),
        description=_description(raw),
        input_schema=schema,
        output_schema=output_schema,
        remote_id=remote_id,
        requires=requirements_of(raw.get("requirements")),
        **_only_in_rfc(raw, extras, output_schema),
    )
    if raw_version is None or isinstance(raw_version, str) or remote_id.partition("@")[2]:
        return definition, named.warnings
    # The number 1.1 may mean 1.10.
    return definition, (*named.warnings, f"Its version is not a string; {naming.DEFAULT_VERSION} stands in.")


def _description(raw: JsonObject) -> str:
    value = raw.get("description")
    if value is not None and not isinstance(value, str):
        raise DefinitionError("description is not a string")
    return value or ""


def _version(raw: JsonObject) -> Json:
    version, toolkit = raw.get("version"), raw.get("toolkit")
    return toolkit.get("version") if version is None and isinstance(toolkit, dict) else version


def _input(raw: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The schema of the arguments, and what only the RFC has. Members that are null are as if they were not there."""
    wrapper: Json = next((raw[name] for name in ("input_schema", "input") if raw.get(name) is not None), {})
    if not isinstance(wrapper, dict):
        raise DefinitionError("the input schema is not an object")
    schema, inner = dict(wrapper), wrapper.get("parameters")
    if isinstance(inner, dict) and wrapper.keys() <= WRAPPER_MEMBERS:
        schema = {key: wrapper[key] for key in _DEFINITIONS if key in wrapper} | inner  # what its references may name
        # One draft's example puts `required` beside `parameters`.
        if isinstance(wrapper.get("required"), list) and "required" not in inner:
            schema["required"] = wrapper["required"]
    extras = {field: schema.pop(key, wrapper.get(key)) for key, field in ANNOTATIONS.items()}
    if "non_inferrable_parameters" in wrapper:
        extras["non_inferrable_parameters"] = wrapper["non_inferrable_parameters"]
    return schema, extras


def _output(raw: JsonObject) -> JsonObject | None:
    schema = raw.get("output_schema", {})
    if (output := _rfc_output(raw)) is not None:
        modes = output.get("available_modes")
        nothing = isinstance(modes, list) and "value" not in modes and "null" in modes
        schema = None if nothing else output.get("value", {})
    if schema is None:
        return None
    if not isinstance(schema, dict):
        raise DefinitionError("the output schema is not an object")
    inner = schema.get("parameters")
    return inner if isinstance(inner, dict) and schema.keys() == {"parameters"} else schema


def _rfc_output(raw: JsonObject) -> JsonObject | None:
    """What the RFC has in place of an output schema."""
    output = raw.get("output")
    return output if isinstance(output, dict) and raw.get("output_schema") is None else None


def _only_in_rfc(raw: JsonObject, extras: JsonObject, output_schema: JsonObject | None) -> dict[str, Any]:
    toolkit, output = raw.get("toolkit"), _rfc_output(raw)
    if isinstance(toolkit, dict):
        extras["toolkit_description"] = toolkit.get("description")
    if output is not None:
        extras["output_modes"] = output.get("available_modes")
        extras["output_description"] = output.get("description")
    modes = tuple(mode for mode in _strings(extras["output_modes"]) if mode in OUTPUT_MODES)
    return {
        "toolkit_description": string(extras["toolkit_description"]) or None,
        "non_inferrable_parameters": _strings(extras["non_inferrable_parameters"]),
        # What only the RFC must state, and is the default elsewhere, is left out.
        "output_modes": modes if modes and modes != usual_modes(output_schema) else None,
        "output_description": string(extras["output_description"]),
        "examples": raw.get("examples", extras["examples"]),
    }


def usual_modes(output_schema: JsonObject | None) -> tuple[str, ...]:
    """The output modes of a tool that does not name any (RFC 4.1, Output Schema)."""
    return ("null", "error") if output_schema is None else ("value", "error")


def _strings(value: Json) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def requirements_of(raw: Json) -> Requirements:
    """Reads what `requirements_object` writes. Raises DefinitionError."""
    if raw is None:
        return Requirements()
    if not isinstance(raw, dict):
        raise DefinitionError("requirements is not an object")
    return Requirements(
        authorization=tuple(_authorization(entry) for entry in _entries(raw, "authorization")),
        secrets=tuple(_id(entry, "secrets") for entry in _entries(raw, "secrets")),
        user_id=raw.get("user_id") is True,
    )


def _entries(raw: JsonObject, member: str) -> list[Json]:
    entries = raw.get(member) or []
    if not isinstance(entries, list):
        raise DefinitionError(f"requirements.{member} is not an array")
    return entries


def _id(entry: Json, member: str) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or not entry["id"]:
        raise DefinitionError(f"an entry of requirements.{member} has no id")
    return str(entry["id"])


def _authorization(entry: Json) -> AuthorizationRequirement:
    provider, oauth2 = _id(entry, "authorization"), entry.get("oauth2")
    scopes = _strings(oauth2.get("scopes")) if isinstance(oauth2, dict) else None
    return AuthorizationRequirement(id=provider, scopes=scopes)


def requirements_object(requires: Requirements) -> JsonObject | None:
    """`requirements` as every form lists it, or None when there are none."""
    body: JsonObject = {}
    if requires.authorization:
        body["authorization"] = [
            {"id": item.id} if item.scopes is None else {"id": item.id, "oauth2": {"scopes": list(item.scopes)}}
            for item in requires.authorization
        ]
    if requires.secrets:
        body["secrets"] = [{"id": secret} for secret in requires.secrets]
    if requires.user_id:
        body["user_id"] = True
    return body or None


def x_otc(tool: ToolDefinition) -> JsonObject:
    """What only the RFC can say, as annotations for the other forms."""
    annotations = {key: getattr(tool, field) for key, field in ANNOTATIONS.items()}
    return {key: value for key, value in annotations.items() if value is not None and value != ()}


def definition_object(tool: ToolDefinition, input_schema: JsonObject) -> JsonObject:
    """A definition as OTC, OXP and the LangChain family list it, around the input schema in the form's own way."""
    body: JsonObject = {
        "id": tool.id,
        "name": tool.name,
        "description": tool.description,
        "version": tool.version,
        "input_schema": input_schema,
        "output_schema": tool.output_schema,
    }
    requirements = requirements_object(tool.requires)
    return body if requirements is None else body | {"requirements": requirements}
