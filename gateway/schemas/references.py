"""Where a JSON Schema has other schemas, and what its references name.

References by `$id` and anchor are rewritten as JSON pointers from the root of the document that contains their targets
(2020-12 core, sections 8.2 and 9.1; draft 7 core, section 8.2). What follows such a document, in this package and in
the validator, then has one kind of reference to understand.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote, urljoin

import msgspec

from gateway.core.jsontext import escaped_name, split_pointer
from gateway.core.model import Json, JsonObject

Schema = JsonObject
Pointer = tuple[str, ...]

# Where draft 4 to 2020-12 have a place for schemas; before 2020-12 `items` may be a list.
_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_LIST = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAP = ("dependentSchemas", "dependencies")
IN_PLACE = {*_IN_PLACE_ONE, *_IN_PLACE_LIST, *_IN_PLACE_MAP}  # these look at the same value
_CHILD_ONE = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
DEFINITIONS = ("$defs", "definitions")
ONE = {*_IN_PLACE_ONE, *_CHILD_ONE}
LIST = {*_IN_PLACE_LIST, "prefixItems", "items"}
MAP = {*_IN_PLACE_MAP, "properties", "patternProperties", *DEFINITIONS}

_BEFORE_2019 = ("draft-04", "draft-06", "draft-07")

DEFAULT_BASE = "json-schema:///"  # of a document without an `$id`: any will do, because nothing is fetched
MAX_QUOTED = 100  # characters of a reference in a sentence

_DYNAMIC = ("$dynamicRef", "$recursiveRef")
# In a text without any of these, as keys, every reference is a pointer from the root.
_SPECIAL = re.compile(rb'"(?:\$ref":"(?!#["/])|\$(?:dynamicRef|recursiveRef|id)"|id":")')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class SchemaError(ValueError):
    """A schema that cannot be used; `reason` is a sentence for the operator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def subschemas(schema: Schema) -> Iterator[tuple[Pointer, Schema]]:
    """The schemas (no bare booleans) directly inside one, as they are written, and the keys that lead to each."""
    for keyword, value in schema.items():
        if isinstance(value, dict):
            if keyword in ONE:
                yield (keyword,), value
            elif keyword in MAP:
                yield from (((keyword, name), s) for name, s in value.items() if isinstance(s, dict))
        elif isinstance(value, list) and keyword in LIST:
            yield from (((keyword, str(i)), s) for i, s in enumerate(value) if isinstance(s, dict))


def inside(schema: Schema) -> list[Schema]:
    """The same without the keys, in a third of the time."""
    schemas: list[Schema] = []
    for keyword, value in schema.items():
        if isinstance(value, dict):
            if keyword in ONE:
                schemas.append(value)
            elif keyword in MAP:
                schemas += [inner for inner in value.values() if isinstance(inner, dict)]
        elif isinstance(value, list) and keyword in LIST:
            schemas += [inner for inner in value if isinstance(inner, dict)]
    return schemas


def text_of(schema: Schema) -> bytes | None:
    """A schema as JSON, in which absent keywords are seen at once; None for what cannot be written, or hardly."""
    try:
        return msgspec.json.encode(schema)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return None


def names_draft(schema: Schema, *drafts: str) -> bool:
    """Whether the `$schema` of a document names one of these drafts, such as `2020-12`."""
    draft = schema.get("$schema")
    return isinstance(draft, str) and any(name in draft for name in drafts)


def is_before_2019(schema: Schema) -> bool:
    """Whether a document is of draft 4, 6 or 7: keywords beside a `$ref` are ignored, and `format` is checked."""
    return names_draft(schema, *_BEFORE_2019)


def local(root: Schema, text: bytes | None = None) -> Schema:
    """The same schema with pointers as its only references, and no `$id` but that of the root.

    Returns the document itself if it is like that already, which its `text` may show. Raises: SchemaError for a
    reference to what the document does not contain, and for a dynamic one whose target depends on the way that leads to
    it.
    """
    if (text and not _SPECIAL.search(text)) or not _has_others(root):
        return root
    return _Resources(root).rewritten()


def outside(ref: str) -> SchemaError:
    """The refusal of a reference to another document."""
    return SchemaError(f"It refers to {ref[:MAX_QUOTED]!r}, outside of itself; only local references are followed.")


def missing(ref: str) -> SchemaError:
    """The refusal of a reference to a place that is not there."""
    return SchemaError(f"It refers to {ref[:MAX_QUOTED]!r}, which it does not contain.")


def followed(root: Schema, pointer: Pointer, ref: str) -> list[Any]:
    """The values along a pointer, from the root to its target. Raises: SchemaError."""
    way: list[Any] = [root]
    for key in pointer:
        node = way[-1]
        try:
            way.append(node[int(key)] if isinstance(node, list) else node[key])
        except (LookupError, TypeError, ValueError) as exc:
            raise missing(ref) from exc
    return way


def pointer_of(fragment: str) -> Pointer:
    """The keys that a JSON pointer names (RFC 6901, section 6: in a fragment it is percent-encoded)."""
    return tuple(split_pointer(unquote(fragment)))


def _has_others(root: Schema) -> bool:
    """Whether there are references, and any that is no pointer, or anything that gives a pointer another meaning."""
    identity = _identity(root)
    refers = has_others = False
    waiting: list[Json] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            waiting.extend(node.values())
            ref = node.get("$ref")
            if isinstance(ref, str):
                refers = True
                has_others |= ref != "#" and not ref.startswith("#/")
            if any(keyword in node for keyword in _DYNAMIC):
                return True
            if node is not root:
                has_others |= isinstance(node.get(identity), str)
    return refers and has_others


class _Resources:
    """The parts of a document that have names of their own. `places` are pointers from the root, by absolute URI."""

    def __init__(self, root: Schema) -> None:
        self._root: Schema = _copied(root)
        self._before_2019 = is_before_2019(root)
        self._has_recursive = names_draft(root, "2019-09")
        self._has_dynamic = not (self._before_2019 or self._has_recursive)
        has = (self._has_dynamic, self._has_recursive)
        self._unknown = [keyword for keyword, is_there in zip(_DYNAMIC, has, strict=True) if not is_there]
        self._identity = _identity(root)
        self._places: defaultdict[str, list[Pointer]] = defaultdict(list)  # of resources by URI, of anchors by URI#name
        self._dynamic: defaultdict[str, set[str]] = defaultdict(set)  # URIs of resources, by their dynamic anchors
        self._bases: dict[int, str] = {}  # of all schemas that were looked at, by `id`
        self._waiting: list[tuple[Schema, str]] = []  # schemas with references, and their bases
        self._visit(self._root, (), DEFAULT_BASE, known=True)
        of_root = self._places[self._bases[id(self._root)]]
        if () not in of_root:
            of_root.append(())

    def rewritten(self) -> Schema:
        """The document with each reference rewritten."""
        while self._waiting:
            schema, base = self._waiting.pop()
            refs = [schema.pop(keyword) for keyword in _DYNAMIC if isinstance(schema.get(keyword), str)]
            rewritten = [self._rewritten_dynamic(ref, base) for ref in refs]
            if isinstance(ref := schema.get("$ref"), str):
                rewritten.insert(0, self._spelled(*self._resolved(ref, base), ref))
            schema["$ref"], *more = rewritten
            if more:
                schema["allOf"] = [*schema.get("allOf", ()), *({"$ref": pointer} for pointer in more)]
        return self._root

    def _visit(self, schema: Schema, place: Pointer, base: str, *, known: bool) -> None:
        """Looks at a schema and all inside it. `known`: it stands where a keyword has a schema, so its names count."""
        queue = [(schema, place, base)]
        while queue:
            schema, place, base = queue.pop()
            if id(schema) in self._bases:
                continue
            is_ref_alone = self._before_2019 and isinstance(schema.get("$ref"), str)
            if not is_ref_alone:
                base = self._named(schema, place, base, known=known)
            self._bases[id(schema)] = base
            for keyword in self._unknown:
                if keyword in schema:
                    raise SchemaError(f"It uses {keyword}, which its draft does not have.")
            if any(isinstance(schema.get(keyword), str) for keyword in ("$ref", *_DYNAMIC)):
                self._waiting.append((schema, base))
            queue.extend((inner, (*place, *keys), base) for keys, inner in subschemas(schema))

    def _named(self, schema: Schema, place: Pointer, base: str, *, known: bool) -> str:
        """Takes down, and out, the names that a schema has; returns the base of what it refers to."""
        identity = schema.get(self._identity)
        if isinstance(identity, str):
            uri, _, name = identity.partition("#")
            if known and (uri or not name):
                base = _joined(base, uri)
                self._places[base].append(place)
                self._check_draft(schema)
            if name and known and self._before_2019:
                self._places[f"{base}#{name}"].append(place)
            if schema is not self._root:
                del schema[self._identity]
        if self._before_2019:
            return base
        for keyword in ("$anchor", "$dynamicAnchor") if self._has_dynamic else ("$anchor",):
            name = schema.pop(keyword, None)
            if known and isinstance(name, str):
                self._places[f"{base}#{name}"].append(place)
                if keyword == "$dynamicAnchor":
                    self._dynamic[name].add(base)
        if self._has_recursive and schema.pop("$recursiveAnchor", False) is True:
            self._dynamic[""].add(base)
        return base

    def _check_draft(self, schema: Schema) -> None:
        """Refuses a resource in another draft than the document. Raises: SchemaError."""
        draft = schema.get("$schema")
        if schema is not self._root and isinstance(draft, str):
            of_root = self._root.get("$schema", "https://json-schema.org/draft/2020-12/schema")
            if draft.rstrip("#") != str(of_root).rstrip("#"):
                raise SchemaError("A part with an $id of its own names another draft in $schema than the whole.")

    def _resolved(self, ref: str, base: str) -> tuple[Pointer, str]:
        """Where the target of a reference is, and the base of what that refers to. Raises: SchemaError."""
        uri, _, fragment = ref.partition("#")
        base = _joined(base, uri) if uri else base
        if base not in self._places:
            raise outside(ref)
        resource = self._only(base, ref)
        if fragment and not fragment.startswith("/"):
            return self._only(f"{base}#{unquote(fragment)}", ref), base
        return (*resource, *pointer_of(fragment)), base

    def _only(self, name: str, ref: str) -> Pointer:
        places = self._places[name]
        if len(places) > 1:
            raise SchemaError(f"It refers to {ref[:MAX_QUOTED]!r}, and several of its parts have that name.")
        if not places:
            raise missing(ref)
        return places[0]

    def _spelled(self, place: Pointer, base: str, ref: str) -> str:
        """The pointer to a target, which is looked at too: it may be where no keyword has a schema."""
        way = followed(self._root, place, ref)
        for node in way:
            base = self._bases.get(id(node), base)
        if isinstance(way[-1], dict):
            self._visit(way[-1], place, base, known=False)
        return "#" + "".join("/" + quote(escaped_name(key), safe="$~") for key in place)

    def _rewritten_dynamic(self, ref: str, base: str) -> str:
        """The pointer to the target of a dynamic reference, if it has only one. Raises: SchemaError."""
        place, resource = self._resolved(ref, base)
        answering = self._dynamic[unquote(ref.partition("#")[2])]
        if resource in answering and len(answering) > 1:
            quoted = repr(ref[:MAX_QUOTED])
            raise SchemaError(f"It uses the dynamic reference {quoted}, which more than one of its parts answer.")
        return self._spelled(place, resource, ref)


def _identity(root: Schema) -> str:
    """The keyword that gives a schema its URI."""
    return "id" if names_draft(root, "draft-04") else "$id"


def _joined(base: str, ref: str) -> str:
    """A reference without its fragment, resolved (RFC 3986, section 5); Python does that for schemes it knows only."""
    if not ref or _SCHEME.match(ref):
        return ref or base
    scheme, colon, rest = base.partition(":")
    if not rest.startswith("/"):
        return ref  # nothing is relative to a URN
    joined = urljoin(f"http{colon}{rest}", ref)
    return scheme + joined.removeprefix("http")


def _copied(node: Any) -> Any:
    """A deep copy, in which each object stands in one place only."""
    if isinstance(node, dict):
        return {key: _copied(value) for key, value in node.items()}
    return [_copied(value) for value in node] if isinstance(node, list) else node
