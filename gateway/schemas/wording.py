"""What is wrong with a value, in words for users (OTC and OXP 1.0: `parameter_errors`).

The words are made from the schema and from the names of parameters, never from a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind

MAX_NAME_LENGTH = 100  # of a parameter in a message; unknown ones are the caller's invention
MAX_TEXT_LENGTH = 500  # of one parameter's text
MAX_QUOTED_LENGTH = 200  # of what is quoted from the schema: an enum may list every country
WHOLE = "input"  # the key for what is wrong with no single parameter

_ARTICLES = {"array": "an array", "integer": "an integer", "object": "an object", "null": "null"}
_NO_FORM_FITS = "does not have any of the allowed forms"


class Finding(NamedTuple):
    """One thing that is wrong: where (from the outermost key inwards), and what."""

    path: tuple[str | int, ...]
    text: str

    @property
    def place(self) -> str:
        """The path as people write it: `items[2].name`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step[:MAX_NAME_LENGTH]}" for step in self.path)
        return "".join(steps).removeprefix(".")

    @property
    def sentence(self) -> str:
        """Place and text, as a message about a whole value."""
        return shortened(f"at {self.place}: {self.text}" if self.path else self.text, MAX_TEXT_LENGTH)


def findings(error: ValidationError) -> list[Finding]:
    """Words one error of the validator; missing and unknown names are a finding each."""
    path = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(name):
            return [Finding((*path, name), "is required")]
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            return [Finding((*path, name), "is not known") for name in names]
        case Kind.PropertyNames(inner) if isinstance(inner.instance, str):
            return [Finding((*path, inner.instance), "is not an allowed name")]
        case kind:
            return [Finding(path, _text(kind))]


def by_parameter(found: Iterable[Finding]) -> dict[str, str]:
    """Gathers findings under the parameters they are about; several about one are joined."""
    texts: dict[str, list[str]] = {}
    for finding in found:
        key = str(finding.path[0])[:MAX_NAME_LENGTH] if finding.path else WHOLE
        text = finding.sentence if len(finding.path) > 1 else finding.text
        said = texts.setdefault(key, [])
        if text not in said:
            said.append(text)
    return {key: shortened("; ".join(said), MAX_TEXT_LENGTH) for key, said in texts.items()}


def shortened(text: str, limit: int) -> str:
    """Cuts a text that is too long, visibly."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _text(kind: Any) -> str:  # noqa: C901 - one flat table, a line per keyword
    match kind:
        case Kind.Type(types):
            return f"is not {_any_type(types)}"
        case Kind.Enum(options):
            return f"is not one of {_quoted(options).removeprefix('[').removesuffix(']')}"
        case Kind.Constant(expected):
            return f"is not {_quoted(expected)}"
        case Kind.Minimum(limit):
            return f"is less than {_quoted(limit)}"
        case Kind.Maximum(limit):
            return f"is greater than {_quoted(limit)}"
        case Kind.ExclusiveMinimum(limit):
            return f"is not greater than {_quoted(limit)}"
        case Kind.ExclusiveMaximum(limit):
            return f"is not less than {_quoted(limit)}"
        case Kind.MultipleOf(divisor):
            return f"is not a multiple of {_quoted(divisor)}"
        case Kind.MinLength(limit):
            return f"is shorter than {_counted(limit, 'character')}"
        case Kind.MaxLength(limit):
            return f"is longer than {_counted(limit, 'character')}"
        case Kind.MinItems(limit):
            return f"has fewer than {_counted(limit, 'item')}"
        case Kind.MaxItems(limit) | Kind.AdditionalItems(limit):
            return f"has more than {_counted(limit, 'item')}"
        case Kind.MinProperties(limit):
            return f"has fewer than {_counted(limit, 'member')}"
        case Kind.MaxProperties(limit):
            return f"has more than {_counted(limit, 'member')}"
        case Kind.Pattern(pattern):
            return f"does not match the pattern {shortened(pattern, MAX_QUOTED_LENGTH)}"
        case Kind.Format(name):
            return f"is not a valid {shortened(name, MAX_QUOTED_LENGTH)}"
        case Kind.UniqueItems():
            return "has repeated items"
        case Kind.UnevaluatedItems():
            return "has more items than are allowed"
        case Kind.Contains():
            return "does not have the right number of the items it must contain"
        case Kind.Not():
            return "has a form that is not allowed"
        case Kind.AnyOf(branches) | Kind.OneOfNotValid(branches):
            return _wrong_branches(branches)
        case Kind.OneOfMultipleValid():
            return "fits more than one of the allowed forms"
        case Kind.FalseSchema():
            return _NO_FORM_FITS
        case Kind.BacktrackLimitExceeded() | Kind.RegexEngineFailure():
            return "is too complicated to be checked"
        case _:
            return "does not match the schema"


def _wrong_branches(branches: Sequence[Sequence[ValidationError]]) -> str:
    """Optional parameters are often `anyOf: [{type: string}, {type: null}]`; those deserve a plain sentence."""
    types: list[str] = []
    for branch in branches:
        match [error.kind for error in branch]:
            case [Kind.Type(wanted)]:
                types += wanted
            case _:
                return _NO_FORM_FITS
    return f"is not {_any_type(types)}"


def _any_type(types: Iterable[str]) -> str:
    null_last = sorted(types, key=lambda name: name == "null")
    return " or ".join(dict.fromkeys(_ARTICLES.get(name, f"a {name}") for name in null_last))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _quoted(value: Any) -> str:
    return shortened(msgspec.json.encode(value).decode(), MAX_QUOTED_LENGTH)
