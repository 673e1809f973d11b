"""What is wrong with a value, in words for users (OTC and OXP 1.0: `parameter_errors`).

The words are made from the schema and from the names of parameters, never from a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind

from gateway.schemas.forms import (
    any_type,
    fits_none,
    fitting,
    form_of,
    in_format,
    options_of,
    quoted,
    shortened,
)
from gateway.schemas.references import Schema

MAX_NAME_LENGTH = 100  # of a parameter in a message; unknown ones are the caller's invention
MAX_TEXT_LENGTH = 500  # of one parameter's text
WHOLE = "input"  # the key for what is wrong with no single parameter

_NO_FORM_FITS = "does not have any of the allowed forms"


def _counted(noun: str, number: int) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_characters, _items, _members = (partial(_counted, noun) for noun in ("character", "item", "member"))
# By the library's name of the error: a sentence, and the function that puts the schema's limit into words.
_WORDS: dict[type[Kind], tuple[str, Callable[[Any], str]]] = {
    Kind.Type: ("is not {}", any_type),
    Kind.Enum: ("is not {}", options_of),
    Kind.Constant: ("is not {}", quoted),
    Kind.Minimum: ("is less than {}", quoted),
    Kind.Maximum: ("is greater than {}", quoted),
    Kind.ExclusiveMinimum: ("is not greater than {}", quoted),
    Kind.ExclusiveMaximum: ("is not less than {}", quoted),
    Kind.MultipleOf: ("is not a multiple of {}", quoted),
    Kind.MinLength: ("is shorter than {}", _characters),
    Kind.MaxLength: ("is longer than {}", _characters),
    Kind.MinItems: ("has fewer than {}", _items),
    Kind.MaxItems: ("has more than {}", _items),
    Kind.AdditionalItems: ("has more than {}", _items),
    Kind.MinProperties: ("has fewer than {}", _members),
    Kind.MaxProperties: ("has more than {}", _members),
    Kind.Pattern: ("does not match the pattern {}", shortened),
    Kind.Format: ("is not {}", in_format),
    Kind.UniqueItems: ("has repeated items", str),
    Kind.UnevaluatedItems: ("has more items than are allowed", str),
    Kind.BacktrackLimitExceeded: ("is too complicated to be checked", str),
    Kind.RegexEngineFailure: ("is too complicated to be checked", str),
}


class Finding(NamedTuple):
    """One thing that is wrong."""

    path: tuple[str | int, ...]  # where, from the outermost key inwards
    text: str  # what

    @property
    def place(self) -> str:
        """The path as people write it: `items[2].name`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step[:MAX_NAME_LENGTH]}" for step in self.path)
        return "".join(steps).removeprefix(".")

    @property
    def sentence(self) -> str:
        """Place and text, as a message about a whole value."""
        return shortened(f"at {self.place}: {self.text}" if self.path else self.text, MAX_TEXT_LENGTH)


Texts = dict[tuple[type, tuple[str | int, ...]], str]  # by the kind of the error and its place in the schema


def findings(error: ValidationError, root: Schema, texts: Texts) -> list[Finding]:
    """Words one error of the validator of the schema `root`; missing and unknown names are a finding each.

    `texts` holds what was said before: a thousand items may be wrong in one way.
    """
    path = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(name):
            return [Finding((*path, name), _required(name, error, root))]
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            return [Finding((*path, name), "is not known") for name in names]
        case Kind.PropertyNames(inner) if isinstance(inner.instance, str):
            return [Finding((*path, inner.instance), f"is not an allowed name: it {_text(inner, root)}")]
        case kind:
            place = type(kind), tuple(error.schema_path)
            if place not in texts:
                texts[place] = _text(error, root)
            return [Finding(path, texts[place])]


def by_parameter(problems: Iterable[Finding]) -> dict[str, str]:
    """Gathers findings under the parameters they are about; several about one are joined."""
    texts: dict[str, list[str]] = {}
    for finding in problems:
        key = str(finding.path[0])[:MAX_NAME_LENGTH] if finding.path else WHOLE
        text = finding.sentence if len(finding.path) > 1 else finding.text
        sentences = texts.setdefault(key, [])
        if text not in sentences:
            sentences.append(text)
    return {key: shortened("; ".join(sentences), MAX_TEXT_LENGTH) for key, sentences in texts.items()}


def _text(error: ValidationError, root: Schema) -> str:
    if (words := _WORDS.get(type(error.kind))) is not None:
        text, in_words = words
        return text.format(in_words(error.kind.value))
    match error.kind:
        case Kind.Contains():
            return _contained(error, root)
        case Kind.Not(inner):
            return _forbidden(inner, root)
        case Kind.AnyOf() | Kind.OneOfNotValid():
            return fits_none(_at(root, error.schema_path) or (), root) or _NO_FORM_FITS
        case Kind.OneOfMultipleValid():
            forms = fitting(_at(root, error.schema_path) or (), root)
            return "fits more than one of the allowed forms" + (f": {forms}" if forms else "")
        case Kind.FalseSchema():
            return _refused(error, root)
        case _:
            return "does not match the schema"


def _at(root: Schema, path: Sequence[str | int]) -> Any:
    """What stands in a schema at a path; None if nothing does."""
    node: Any = root
    for key in path:
        try:
            node = node[key]
        except (LookupError, TypeError):
            return None
    return node


def _required(name: str, error: ValidationError, root: Schema) -> str:
    """A member may be required only beside others (`dependentRequired`, before 2019-09 `dependencies`)."""
    if error.schema_path and error.schema_path[-1] in ("dependentRequired", "dependencies"):
        needs = _at(root, error.schema_path)
        if isinstance(needs, dict):
            beside = [trigger for trigger, needed in needs.items() if isinstance(needed, list) and name in needed]
            return f"is required beside {shortened(' or '.join(beside))}"
    return "is required"


def _refused(error: ValidationError, root: Schema) -> str:
    """No value is allowed, or the schema was asked whether the value fits another: `{"if": X, "else": false}`."""
    schema = _at(root, error.schema_path[:-1])
    if error.schema_path and error.schema_path[-1] == "else" and isinstance(schema, dict):
        return _unfit(schema.get("if"), root)
    return "is not allowed"


def _unfit(schema: Any, root: Schema) -> str:
    """What is said of a value that does not fit a schema."""
    if isinstance(schema, dict) and isinstance(choices := schema.get("oneOf"), list):
        forms = fitting(choices, root)  # it may fit none of them, or several
        return f"has to be exactly one of these: {forms}" if forms else _NO_FORM_FITS
    branches = schema.get("anyOf") if isinstance(schema, dict) else None
    return fits_none(branches if isinstance(branches, list) else [schema], root) or _NO_FORM_FITS


def _forbidden(schema: Any, root: Schema) -> str:
    if isinstance(schema, dict) and schema.keys() == {"not"}:  # a question, where there is no `if`
        return _unfit(schema["not"], root)
    form = form_of(schema, root)
    return "has a form that is not allowed" if form is None else f"must not be {form}"


def _contained(error: ValidationError, root: Schema) -> str:
    schema = _at(root, error.schema_path[:-1])
    schema = schema if isinstance(schema, dict) else {}
    form = form_of(schema.get("contains"), root) or "of the form that it must contain"
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if most is not None and error.schema_path[-1] == "maxContains":
        return f"has more than {_items(most)} that may be {form}"
    return f"has no item that is {form}" if least == 1 else f"has fewer than {_items(least)}, each {form}"
