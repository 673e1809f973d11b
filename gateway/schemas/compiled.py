"""Schemas compiled for checking values: fast when the value is good, bounded in time and words when it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Any, Self

import jsonschema_rs
from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, Validator
from jsonschema_rs import ValidationErrorKind as Kind

from gateway.model import Json, JsonObject
from gateway.schemas.document import Document, Schema, SchemaError, subschemas
from gateway.schemas.inline import inline_refs, with_subschemas
from gateway.schemas.keywords import is_before_2019
from gateway.schemas.wording import Finding, by_parameter, findings, shortened

MAX_FINDINGS = 50  # told about one call; nobody reads more
MAX_EXPLAINED = 2_000  # values in an argument tree. The library makes all errors at once, 8 us each
# Compiled, ten characters (`\p{L}{99}`) take 5 MB and 50 ms, and a schema has room for thousands of such patterns.
MAX_PATTERN_BYTES = 10 * 1024 * 1024  # of one, compiled; what the library allows by itself
MAX_PATTERNS_BYTES = 32 * 1024 * 1024  # of all of a schema together, in equal shares: below a second
BACKTRACK_LIMIT = 10_000  # steps of one match of a pattern with look-around: 0.1 ms; ordinary patterns are linear

# As far as the library has them; it would fetch any other from wherever its name leads.
DRAFTS = re.compile(r"https?://json-schema\.org/(draft-0[467]/|draft/20(19-09|20-12)/)?schema#?")

_MASK = "the value"  # stands in the library's messages, which would quote the value
# What the library raises for lone surrogates, and for nesting and numbers beyond its own.
_REFUSALS = (ValueError, OverflowError, RecursionError, TypeError)
_NOT_MATCHED = Finding((), "does not match the schema")
_NOT_CHECKED = Finding((), "holds something that cannot be checked")


def is_json_schema(schema: JsonObject) -> bool:
    """Whether a schema is valid by the draft it names; takes a twentieth of the time of compiling it."""
    named = schema.get("$schema", "https://json-schema.org/schema")
    return isinstance(named, str) and bool(DRAFTS.fullmatch(named)) and jsonschema_rs.meta.is_valid(schema)


class _Compiled:
    """A schema that tells whether a value is valid and, in words, why not."""

    def __init__(self, schema: Schema) -> None:
        document = Document(schema)
        document.check_work()
        self.is_valid = _validator(document.root, _pattern_limit(document)).is_valid
        self._schema = document.root

    def findings(self, value: Json) -> list[Finding]:
        """Everything that is wrong with a value, up to a limit; empty when it is valid."""
        try:
            if self.is_valid(value):
                return []
        except _REFUSALS:
            return [_NOT_CHECKED]  # and so not passed on
        try:
            return list(islice(self._explained(value), MAX_FINDINGS)) or [_NOT_MATCHED]
        except _REFUSALS:
            return [_NOT_MATCHED]

    def _explained(self, value: Json) -> Iterator[Finding]:
        if self._explaining is None:
            return iter(())
        if _holds_more_than(value, MAX_EXPLAINED):
            try:
                self._explaining.validate(value)
            except ValidationError as exc:
                return iter(findings(exc))
        return chain.from_iterable(map(findings, self._explaining.iter_errors(value)))

    @cached_property
    def _explaining(self) -> Validator | None:
        """Made at the first bad value: most tools are never called wrongly."""
        try:
            return _explaining_validator(self._schema)
        except SchemaError:
            return None


class InputSchema(_Compiled):
    """The schema of a tool's arguments."""

    @classmethod
    def compile(cls, schema: JsonObject) -> Self:
        """Compiles a schema of arguments. Raises: SchemaError."""
        kinds = schema.get("type", "object") if isinstance(schema, dict) else "object"
        if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
            raise SchemaError("It does not describe an object, and arguments always are one.")
        return cls(schema)

    def errors(self, arguments: JsonObject) -> dict[str, str]:
        """What is wrong, by parameter: the outermost one, or `input`. Empty when the arguments are valid."""
        found = self.findings(arguments)
        return by_parameter(found) if found else {}


class OutputSchema(_Compiled):
    """The schema of a tool's value."""

    @classmethod
    def compile(cls, schema: JsonObject) -> Self:
        """Compiles a schema of any value. Raises: SchemaError."""
        return cls(schema)

    def violation(self, value: Json) -> str | None:
        """The first thing that is wrong with a value, without quoting it; None when it is valid."""
        found = self.findings(value)
        return found[0].sentence if found else None


def _validator(schema: Schema, pattern_limit: int) -> Validator:
    """Compiles with the linear regex engine, or with the backtracking one where a pattern needs look-around."""
    try:
        return _compile(schema, RegexOptions(size_limit=pattern_limit))
    except ValidationError as exc:
        if not (isinstance(exc.kind, Kind.Format) and exc.kind.format == "regex"):
            raise _refusal(exc) from exc
    except ValueError as exc:
        raise SchemaError(f"It cannot be compiled: {shortened(str(exc), 200)}.") from exc
    try:
        backtracking = FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=pattern_limit)
        return _compile(schema, backtracking)
    except ValidationError as exc:
        raise _refusal(exc) from exc


def _pattern_limit(document: Document) -> int:
    """How many bytes each pattern of a schema may have, compiled."""
    return min(MAX_PATTERN_BYTES, MAX_PATTERNS_BYTES // max(len(document.patterns), 1))


def _compile(schema: Schema, patterns: RegexOptions | FancyRegexOptions) -> Validator:
    return jsonschema_rs.validator_for(
        schema,
        offline=True,
        validate_formats=is_before_2019(schema),  # since 2019-09 `format` only describes (validation, section 7.2.1)
        pattern_options=patterns,
        mask=_MASK,
    )


def _refusal(error: ValidationError) -> SchemaError:
    place = Finding(tuple(error.instance_path), "").place
    message = shortened(error.message, 200)
    if isinstance(error.kind, Kind.Format) and error.kind.format == "regex":
        message = "the pattern is no regular expression, or takes too much room"
    return SchemaError(f"At {shortened(place, 200)}: {message}." if place else f"{message}.")


def _explaining_validator(schema: Schema) -> Validator:
    """Compiles an equivalent schema whose errors come in time linear in the value.

    The library reports, for each failed `anyOf`, the errors of every branch with all their own branches: on a
    recursive schema 2.2 s for a value 14 levels deep, where `is_valid` takes 14 microseconds. So whatever
    multiplies is asked as a question, `{"if": X, "else": false}`, that is answered yes or no.
    """
    document = Document(inline_refs(schema))
    return _validator(_Explainable(document).root(), _pattern_limit(document))


class _Explainable:
    def __init__(self, document: Document) -> None:
        self._document = document
        meta_schema = str(document.root.get("$schema", ""))
        self._has_if = "draft-04" not in meta_schema and "draft-06" not in meta_schema

    def root(self) -> Schema:
        return self._rewritten(self._document.root)

    def _rewritten(self, schema: Schema) -> Schema:
        """Every schema stays where it is, so that pointers still lead to it."""
        result = with_subschemas(schema, self._rewritten)
        if result.get("additionalProperties") is False:
            result.setdefault("properties", {})  # without it the library does not say which are too many
        questions = [keyword for keyword in ("anyOf", "oneOf") if not _is_flat(schema.get(keyword))]
        if self._document.has_ref(schema) and self._document.closes_circle(schema):
            questions.append("$ref")
        if self._document.ref_alone and self._document.has_ref(schema):
            return self._question({"$ref": result["$ref"]}) if "$ref" in questions else result
        if questions:
            asked = [self._question({keyword: result.pop(keyword)}) for keyword in questions]
            result["allOf"] = [*result.get("allOf", ()), *asked]
        return result

    def _question(self, schema: Schema) -> Schema:
        return {"if": schema, "else": False} if self._has_if else {"not": {"not": schema}}


def _is_flat(branches: Any) -> bool:
    """Whether the errors of all branches together are few: no branch holds another schema."""
    if not isinstance(branches, list):
        return True
    return all(
        not isinstance(branch, dict) or ("$ref" not in branch and next(subschemas(branch), None) is None)
        for branch in branches
    )


def _holds_more_than(value: Json, limit: int) -> bool:
    waiting = [value]
    seen = 0
    while waiting and seen <= limit:
        node = waiting.pop()
        seen += 1
        if isinstance(node, dict | list):
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return seen > limit
