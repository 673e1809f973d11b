"""Schemas compiled for checking values: fast when the value is good, bounded in time and words when it is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Self

import jsonschema_rs
import msgspec
from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, Validator
from jsonschema_rs import ValidationErrorKind as Kind

from gateway.core.jsontext import ALWAYS_HERE_BYTES, MAX_DEPTH, is_deeper_than
from gateway.core.model import Json, JsonObject
from gateway.schemas.coercion import Coercion, ExhaustedError, IsValid
from gateway.schemas.cost import Cost, cost_of, is_light, size_of
from gateway.schemas.document import SchemaDocument
from gateway.schemas.forms import shortened
from gateway.schemas.inline import inline_refs, with_subschemas
from gateway.schemas.references import Schema, SchemaError, is_before_2019, names_draft, subschemas
from gateway.schemas.wording import Finding, Texts, findings

MAX_FINDINGS = 50  # reported of one call
MAX_EXPLAINED = 2_000  # values in an argument tree. The library makes all errors at once, 8 us each
# Compiled, ten characters (`\p{L}{99}`) take 5 MB and 50 ms, and a schema has room for thousands of such patterns.
MAX_PATTERN_BYTES = 10 * 1024 * 1024  # of one, compiled; what the library allows by itself
MAX_PATTERNS_BYTES = 32 * 1024 * 1024  # of all of a schema together, in equal shares: below a second
FEW_PATTERN_BYTES = (1024, 8192)  # most patterns take less; the fewer, the longer the texts that are matched at once
BACKTRACK_LIMIT = 10_000  # steps of one match of a pattern with look-around: 0.1 ms; ordinary patterns are linear
MAX_COMPILED_BYTES, MAX_CHECKED_BYTES = 1024 * 1024, 16 * 1024 * 1024  # of schemas and of values, to coerce one value
MAX_COMPILED_HERE_BYTES = 8 * 1024  # the former on the event loop: some milliseconds
MAX_PART_BYTES, PARTS = 2048, 2048  # of a part that stays compiled, and how many do: some MiB in all
ROOT = "toolgate:root"  # a schema, as parts of it refer to it that are compiled by themselves

# As far as the library has them; it would fetch any other from wherever its name leads.
DRAFTS = re.compile(r"https?://json-schema\.org/(draft-0[467]/|draft/20(19-09|20-12)/)?schema#?")

_LARGE = {"$ref", "enum", "const"}  # what they hold or refer to may be of any size

_NO_TYPE = "a type is array, boolean, integer, null, number, object or string, or a list of these"
_NO_PATTERN = "the pattern is no regular expression, or takes too much room"
_MASK = "the value"  # stands in the library's messages, which would quote the value
# What the library raises for lone surrogates, and for nesting and numbers beyond its own.
_REFUSALS = (ValueError, OverflowError, RecursionError, TypeError)
_NOT_MATCHED = Finding((), "does not match the schema")
_NOT_CHECKED = Finding((), "holds something that cannot be checked")


class HeavyError(Exception):
    """A schema that takes too long to compile on the event loop."""


def is_json_schema(schema: JsonObject) -> bool:
    """Whether a schema is valid by the draft it names; takes a twentieth of the time of compiling it."""
    draft = schema.get("$schema", "https://json-schema.org/schema")
    return isinstance(draft, str) and bool(DRAFTS.fullmatch(draft)) and jsonschema_rs.meta.is_valid(schema)


class CompiledSchema:
    """A schema that decides whether a value is valid and, in words, why not.

    It is compiled for its first check: that takes 10 KB, and most tools of many are never called. If compiling could
    hold up the event loop, all checks are left to another process. The size of a value is that of its JSON text in
    bytes.
    """

    is_valid: IsValid

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self.max_bytes = 0
        self._cost: Cost | None = None
        self._is_waiting = True  # to be compiled for its first check
        self._unusable = ""  # why it is, found out then

    @classmethod
    def compile(cls, schema: JsonObject) -> Self:
        """Compiles a schema at once. Raises: SchemaError."""
        compiled = cls(schema)
        compiled._is_waiting = False
        compiled._compile()
        return compiled

    def _compile(self, *, here: bool = False) -> None:
        """Raises SchemaError, HeavyError if `here` that would hold up the event loop."""
        document = SchemaDocument(self._schema)
        self._schema = document.root
        work, patterns = document.work(), len(document.patterns)
        validator, pattern_bytes, backtracks = _validator(self._schema, patterns, here=here)
        self.is_valid = validator.is_valid
        self._cost = cost_of(work, patterns, pattern_bytes, backtracks=backtracks)
        self.max_bytes = min(self._cost.max_bytes, ALWAYS_HERE_BYTES)  # a larger value may still be JSON text
        self._is_light = is_light(self._schema)
        self._options = pattern_bytes, backtracks

    def _compile_here(self) -> None:
        self._is_waiting = False
        if is_light(self._schema):
            try:
                self._compile(here=True)
            except SchemaError as exc:
                self._unusable = exc.reason
            except HeavyError:
                pass

    @property
    def text(self) -> bytes:
        """The schema as JSON."""
        return msgspec.json.encode(self._schema)

    def accepts(self, value: Json, size: int) -> bool:
        """Whether a value is certainly valid; False leaves it to `findings_now`."""
        if size > self.max_bytes:
            return False
        try:
            return self.is_valid(value)
        except _REFUSALS:
            return False

    def findings(self, value: Json) -> list[Finding]:
        """Everything that is wrong with a value, up to a limit; empty when it is valid."""
        verdict = self._verdict(value)
        return self._explained(value) if verdict is None else verdict

    def findings_now(self, value: Json, size: int) -> list[Finding] | None:
        """As `findings`; None where finding them could hold up the event loop, or the value is still JSON text.

        Raises SchemaError if the schema cannot be used.
        """
        if self._is_waiting:
            self._compile_here()
        if self._unusable:
            raise SchemaError(self._unusable)
        if self.accepts(value, size):
            return []
        measured, cost = size_of(value), self._cost
        if cost is None or measured is None or not cost.allows_check(measured):
            return None
        verdict = self._verdict(value)
        return self._explained(value) if verdict is None and self._is_light and cost.allows_words(measured) else verdict

    def coerced(self, value: Json) -> Json:
        """The value in the form that the schema allows (`coercion`), as far as that can be found in a second."""
        try:
            return self._coerced(value, compiled=MAX_COMPILED_BYTES, checked=MAX_CHECKED_BYTES)
        except ExhaustedError:
            return value

    def coerced_now(self, value: Json, size: int) -> Json | None:
        """As `coerced`; None where that could hold up the event loop, or the value is still JSON text."""
        if self._is_waiting:
            self._compile_here()
        if self._unusable:
            return value
        if size > self.max_bytes:
            return None
        try:
            return self._coerced(value, compiled=MAX_COMPILED_HERE_BYTES, checked=self.max_bytes)
        except ExhaustedError:
            return None

    def _coerced(self, value: Json, *, compiled: int, checked: int) -> Json:
        """Raises ExhaustedError."""
        coercion = Coercion(self._schema, self.is_valid, self._part, compiled=compiled, checked=checked)
        try:
            coerced = coercion.fit(self._schema, value)
        except _REFUSALS:
            return value
        return value if is_deeper_than(coerced, MAX_DEPTH) else coerced

    def _part(self, text: bytes) -> IsValid:
        """Compiles a schema that stands in this one; what cannot be compiled or checked allows nothing."""
        draft, options = self._schema.get("$schema"), self._options
        if b'"$ref"' in text:
            text = text.replace(b'"$ref":"#', b'"$ref":"' + ROOT.encode() + b"#")
            return _part_of(text, draft, options, self._registry)
        if len(text) > MAX_PART_BYTES:
            return _part_of(text, draft, options)
        return _part_alone(text, draft, options)

    @cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        return jsonschema_rs.Registry([(ROOT, self._schema)])

    def _verdict(self, value: Json) -> list[Finding] | None:
        """Empty for a valid value; None for one that is not, which remains to be explained."""
        try:
            return [] if self.is_valid(value) else None
        except _REFUSALS:
            return [_NOT_CHECKED]  # and so not passed on

    def _explained(self, value: Json) -> list[Finding]:
        try:
            return list(islice(self._errors(value), MAX_FINDINGS)) or [_NOT_MATCHED]
        except _REFUSALS:
            return [_NOT_MATCHED]

    def _errors(self, value: Json) -> Iterator[Finding]:
        if self._explaining is None:
            return
        validator, root = self._explaining
        errors: Iterable[ValidationError]
        try:
            if _holds_more_than(value, MAX_EXPLAINED):
                validator.validate(value)
            errors = validator.iter_errors(value)
        except ValidationError as exc:
            errors = (exc,)
        texts: Texts = {}
        for error in errors:
            yield from findings(error, root, texts)

    @cached_property
    def _explaining(self) -> tuple[Validator, Schema] | None:
        """Made at the first bad value: most tools are never called wrongly."""
        try:
            return _explaining_validator(self._schema)
        except SchemaError:
            return None


def check_input(schema: JsonObject) -> None:
    """Finds out whether a schema of arguments can be compiled. Raises: SchemaError."""
    kinds = schema.get("type", "object") if isinstance(schema, dict) else "object"
    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        raise SchemaError("It does not describe an object, and arguments always are one.")
    document = SchemaDocument(schema)
    document.check_work()
    _validator(document.root, len(document.patterns))


def _validator(schema: Schema, patterns: int, *, here: bool = False) -> tuple[Validator, int, bool]:
    """Compiles with the linear regex engine, or with the backtracking one where a pattern needs look-around.

    Returns with it how many bytes each pattern takes at most, compiled, and whether the engine backtracks. Raises
    SchemaError, HeavyError if `here` a pattern takes too long to compile, or is none.
    """
    formats = is_before_2019(schema)  # later `format` only describes (JSON Schema validation 2019-09, section 7.2.1)
    most = min(MAX_PATTERN_BYTES, MAX_PATTERNS_BYTES // max(patterns, 1))
    limits = [few for few in FEW_PATTERN_BYTES if few < most] if patterns else []
    refusal = SchemaError("")
    for pattern_bytes in limits if limits and here else (*limits, most):
        for backtracks in (False, True):
            engine = _engine(pattern_bytes, backtracks)
            try:
                validator = jsonschema_rs.validator_for(
                    schema, offline=True, validate_formats=formats, pattern_options=engine, mask=_MASK
                )
            except ValidationError as exc:
                is_pattern = isinstance(exc.kind, Kind.Format) and exc.kind.format == "regex"
                refusal = _refusal(exc, _NO_PATTERN if is_pattern else _what_of(exc))
                if not is_pattern:
                    raise refusal from exc
            except ValueError as exc:
                raise SchemaError(f"It cannot be compiled: {shortened(str(exc))}.") from exc
            else:
                return validator, pattern_bytes, backtracks
    if here:
        raise HeavyError
    raise refusal


def _engine(pattern_bytes: int, backtracks: bool) -> RegexOptions | FancyRegexOptions:
    if backtracks:
        return FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=pattern_bytes)
    return RegexOptions(size_limit=pattern_bytes)


def _part_of(
    text: bytes, draft: str | None, options: tuple[int, bool], registry: jsonschema_rs.Registry | None = None
) -> IsValid:
    """Compiles a part of a schema in that `draft`; `registry` has the whole, under `ROOT`, if the part refers to it."""
    part = msgspec.json.decode(text)
    schema = part if draft is None else {"$schema": draft, **part}
    formats, engine = is_before_2019(schema), _engine(*options)
    try:
        validator = jsonschema_rs.validator_for(
            schema, offline=True, registry=registry, validate_formats=formats, pattern_options=engine
        )
    except (ValueError, jsonschema_rs.ReferencingError):
        return lambda value: False

    def is_valid(value: Json) -> bool:
        try:
            return validator.is_valid(value)
        except _REFUSALS:
            return False

    return is_valid


_part_alone = lru_cache(PARTS)(_part_of)  # tools have much in common, such as `{"type": "integer"}`


def _what_of(error: ValidationError) -> str:
    """What is wrong with a schema; the library speaks of a wrong `type` by the form of its own schema of schemas."""
    is_type = isinstance(error.kind, Kind.AnyOf) and list(error.instance_path)[-1:] == ["type"]
    return _NO_TYPE if is_type else shortened(error.message)


def _refusal(error: ValidationError, what: str) -> SchemaError:
    place = Finding(tuple(error.instance_path), "").place
    return SchemaError(f"At {shortened(place)}: {what}." if place else f"{what}.")


def _explaining_validator(schema: Schema) -> tuple[Validator, Schema]:
    """Compiles an equivalent schema whose errors come in time linear in the value; returns both.

    The library reports, for each failed `anyOf`, the errors of every branch with all their own branches: on a
    recursive schema 2.2 s for a value 14 levels deep, where `is_valid` takes 14 microseconds. So whatever
    multiplies is asked as a question, `{"if": X, "else": false}`, that is answered yes or no.
    """
    document = SchemaDocument(inline_refs(schema))
    root = _explainable(document.root, document)
    return _validator(root, len(document.patterns))[0], root


def _explainable(schema: Schema, document: SchemaDocument) -> Schema:
    """Every schema stays where it is, so that pointers still lead to it."""
    result = with_subschemas(schema, lambda inner: _explainable(inner, document))
    if result.get("additionalProperties") is False:
        result.setdefault("properties", {})  # without it the library does not say which are too many
    questions = [keyword for keyword in ("anyOf", "oneOf") if not _is_flat(schema.get(keyword))]
    if document.closes_circle(schema):
        questions.append("$ref")
    if document.ref_alone and document.has_ref(schema):
        return _question({"$ref": result["$ref"]}, document) if "$ref" in questions else result
    if questions:
        asked = [_question({keyword: result.pop(keyword)}, document) for keyword in questions]
        result["allOf"] = [*result.get("allOf", ()), *asked]
    return result


def _question(schema: Schema, document: SchemaDocument) -> Schema:
    if names_draft(document.root, "draft-04", "draft-06"):
        return {"not": {"not": schema}}
    return {"if": schema, "else": False}


def _is_flat(branches: Any) -> bool:
    """Whether the errors of all branches together are few, and each is small: the library copies an `enum` into it."""
    if not isinstance(branches, list):
        return True
    return all(
        not isinstance(branch, dict) or (_LARGE.isdisjoint(branch) and next(subschemas(branch), None) is None)
        for branch in branches
    )


def _holds_more_than(value: Json, limit: int) -> bool:
    queue = [value]
    count = 0
    while queue and count <= limit:
        node = queue.pop()
        count += 1
        if isinstance(node, dict | list):
            queue.extend(node.values() if isinstance(node, dict) else node)
    return count > limit
