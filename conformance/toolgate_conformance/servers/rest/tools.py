"""What definitions of tools say: which version an id means, which arguments there are, what a tool requires."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolgate_conformance.schemas import fits
from toolgate_conformance.servers.rest.forms import Form

TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]+)(?:\.([0-9]+)\.([0-9]+))?)?", re.ASCII)
VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)", re.ASCII)
SIMPLE = ("string", "number", "integer", "boolean")

Definition = Mapping[str, Any]
Version = tuple[int, int, int]


def name_in(id_: Any) -> str:
    """`Toolkit.Tool` of an id."""
    return str(id_).partition("@")[0]


def version_in(id_: Any) -> Version | None:
    """The version in an id, where `@x` means x.0.0; None if the id has none or is malformed."""
    found = TOOL_ID.fullmatch(id_) if isinstance(id_, str) else None
    if found is None or found[2] is None:
        return None
    return int(found[2]), int(found[3] or 0), int(found[4] or 0)


def version_of(definition: Definition) -> Version | None:
    """The version of a tool, by its id or by its members; None if it states none."""
    toolkit = definition.get("toolkit")
    stated = definition.get("version", toolkit.get("version") if isinstance(toolkit, dict) else None)
    found = VERSION.fullmatch(stated) if isinstance(stated, str) else None
    members = None if found is None else (int(found[1]), int(found[2]), int(found[3]))
    return version_in(definition.get("id")) or members


def definition_for(definitions: Iterable[Definition], id_: str) -> Definition | None:
    """The definition that an id finds: of the version in it, or of the latest (Tool Version Resolution)."""
    same_name = [each for each in definitions if name_in(each.get("id")) == name_in(id_)]
    wanted = version_in(id_)
    if wanted is not None:
        return next((each for each in same_name if version_of(each) == wanted), None)
    return max(same_name, key=lambda each: version_of(each) or (0, 0, 0), default=None)


def input_schema(form: Form, definition: Definition) -> Any:
    """The JSON Schema of the arguments; None if there is none."""
    if form.name == "rfc":
        given = definition.get("input")
        return given.get("parameters") if isinstance(given, dict) else None
    schema = definition.get("input_schema")
    return schema.get("parameters") if form.name == "otc" and isinstance(schema, dict) else schema


def required_arguments(form: Form, definition: Definition) -> Sequence[str]:
    """The arguments that a tool requires. A document of the RFC has `required` beside `parameters`, not in it."""
    schema = input_schema(form, definition)
    found = schema.get("required") if isinstance(schema, dict) else None
    if found is None and form.name == "rfc" and isinstance(definition.get("input"), dict):
        found = definition["input"].get("required")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def arguments_of(form: Form, definition: Definition) -> Mapping[str, Any]:
    """The schemas of the arguments that a tool names."""
    schema = input_schema(form, definition)
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def typed_arguments(form: Form, definition: Definition) -> Sequence[str]:
    """The arguments that take values of one simple type."""
    arguments = arguments_of(form, definition)
    return [name for name, it in arguments.items() if isinstance(it, dict) and it.get("type") in SIMPLE]


def requirements_of(definition: Definition) -> Mapping[str, Any]:
    """What a tool requires, by kind; kinds that are empty or false are left out."""
    found = definition.get("requirements")
    return {kind: it for kind, it in found.items() if it} if isinstance(found, dict) else {}


def may_return_nothing(form: Form, definition: Definition | None) -> bool:
    """Whether a successful result may have no `value`. Clients of the LangChain form read it unasked."""
    if form.name == "lc" or definition is None:
        return form.name != "lc"
    if form.name == "rfc":
        output = definition.get("output")
        modes = output.get("available_modes") if isinstance(output, dict) else None
        return not isinstance(modes, list) or "null" in modes
    schema = definition.get("output_schema")
    return not isinstance(schema, dict) or fits(schema, None) is not False
