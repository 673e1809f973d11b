"""YAML text as JSON values: YAML 1.2 with the core schema, as OpenAPI asks for (3.2, Format).

`yes`, `on`, dates and numbers that begin with a zero are text, keys are text as they are written, and a key that stands
twice is an error. Aliases may make little text large: what they stand for is counted before it is used.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from gateway.core.model import Json, JsonObject

MAX_DEPTH = 150
MAX_ALIASES = 1000
MAX_GROWTH = 10  # times as much as the text itself may stand there once aliases are read
FREE_SIZE = 4096  # of short texts

NULLS = frozenset(("", "~", "null", "Null", "NULL"))
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,299})")  # 010 is 8 to some, 10 to others, and a text to its author
BASED = re.compile(r"0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
REAL = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NUMBER_STARTS = frozenset("+-.0123456789")
STANDARD = "tag:yaml.org,2002:"
# Of the document and of its `info`: `1.10` is no number there.
TEXTS = frozenset(("version", "openapi", "swagger"))
TEXTS_DEPTH = 2


class YamlTextError(ValueError):
    """A text that is not one YAML document as we take it; says why, and where."""


def decode_yaml(text: str) -> Json:
    """Reads the only document of a text. Raises YamlTextError."""
    try:
        parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    except yaml.reader.ReaderError as exc:
        raise YamlTextError("it holds a control character, which YAML does not allow") from exc
    try:
        return _ValueBuilder(parser, FREE_SIZE + MAX_GROWTH * len(text)).document()
    except yaml.MarkedYAMLError as exc:
        raise YamlTextError(_explained(exc)) from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # `\UFFFFFFFF`, or half a surrogate pair
        if isinstance(exc, YamlTextError):
            raise
        raise YamlTextError("it holds a character that YAML does not allow") from exc
    finally:
        parser.dispose()


def _explained(exc: yaml.MarkedYAMLError) -> str:
    mark = exc.problem_mark or exc.context_mark
    return (exc.problem or "it is no YAML") + (f" (line {mark.line + 1})" if mark else "")


class _Open:
    """A list or mapping that is being read. `key` is the one whose value comes next."""

    __slots__ = ("anchor", "before", "is_key_next", "key", "merged", "value")

    def __init__(self, value: Json, anchor: str | None, before: int) -> None:
        self.value = value
        self.anchor = anchor
        self.before = before  # the size of all that came before it
        self.is_key_next = isinstance(value, dict)
        self.key = ""
        self.merged: list[JsonObject] = []  # what `<<` adds


class _ValueBuilder:
    """Makes values of the events of a parser, without recursion."""

    def __init__(self, parser: Any, most: int) -> None:
        self._parser = parser
        self._next = parser.get_event
        self._most = most
        self._size = self._aliases = self._line = 0
        self._anchors: dict[str, tuple[Json, int] | None] = {}  # with their sizes; None: still open
        self._open: list[_Open] = []

    def document(self) -> Json:
        if not self._parser.check_event(yaml.StreamStartEvent):
            raise YamlTextError("it is no YAML")
        self._next()
        if self._parser.check_event(yaml.StreamEndEvent):
            return None
        self._next()  # the start of the document
        value = self._value()
        self._next()  # its end
        if not self._parser.check_event(yaml.StreamEndEvent):
            raise self._wrong("it holds a second document")
        return value

    def _value(self) -> Json:
        """Reads events until the outermost value is whole."""
        while True:
            event = self._next()
            self._line = event.start_mark.line
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._grow(1 + len(event.value))
                if self._open and self._open[-1].is_key_next:
                    self._take_key(event)
                    continue
                done = self._scalar(event)
                if event.anchor:
                    self._anchors[event.anchor] = done, 1 + len(event.value)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._begin(event, {} if kind is yaml.MappingStartEvent else [])
                continue
            elif kind is yaml.AliasEvent:
                done = self._alias(event.anchor)
            else:
                done = self._end()
            if not self._open:
                return done
            self._add(done)

    def _begin(self, event: Any, value: Json) -> None:
        self._no_key()
        if event.tag not in (None, "!", f"{STANDARD}{'map' if isinstance(value, dict) else 'seq'}"):
            raise self._wrong(f"it has a value with the tag {event.tag[:80]!r}")
        if len(self._open) >= MAX_DEPTH:
            raise self._wrong(f"it is nested deeper than {MAX_DEPTH} levels")
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(_Open(value, event.anchor, self._size))
        self._grow(1)

    def _end(self) -> Json:
        closed = self._open.pop()
        for more in closed.merged:
            for key, value in more.items():
                closed.value.setdefault(key, value)
        if closed.anchor:
            self._anchors[closed.anchor] = closed.value, self._size - closed.before
        return closed.value

    def _alias(self, name: str) -> Json:
        self._no_key()
        if name not in self._anchors:
            raise self._wrong(f"it has the alias {name[:80]!r} of nothing")
        anchored = self._anchors[name]
        if anchored is None:
            raise self._wrong(f"the alias {name[:80]!r} stands inside what it stands for")
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise self._wrong(f"it has more than {MAX_ALIASES} aliases")
        self._grow(anchored[1])
        return anchored[0]

    def _no_key(self) -> None:
        if self._open and self._open[-1].is_key_next:
            raise self._wrong("it has a key that is no text")

    def _take_key(self, event: Any) -> None:
        holder = self._open[-1]
        if event.value == "<<" and event.implicit[0]:
            holder.key = "<<"
            holder.is_key_next = False
            return
        if event.value in holder.value:
            raise self._wrong(f"the key {event.value[:80]!r} stands there twice")
        holder.key = event.value
        holder.is_key_next = False
        holder.value[event.value] = None

    def _add(self, value: Json) -> None:
        holder = self._open[-1]
        if type(holder.value) is list:
            holder.value.append(value)
            return
        holder.is_key_next = True
        if holder.key != "<<" or "<<" in holder.value:
            holder.value[holder.key] = value
            return
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(more, dict) for more in several):
            raise self._wrong("what '<<' adds is no mapping")
        holder.merged += several

    def _scalar(self, event: Any) -> Json:
        """What a scalar means (YAML 1.2.2, 10.3.2)."""
        text: str = event.value
        if event.tag is not None and event.tag != "!":
            return self._tagged(event.tag, text)
        if not event.implicit[0]:
            return text
        if self._open and len(self._open) <= TEXTS_DEPTH and self._open[-1].key in TEXTS:
            return text
        if text[:1] in NUMBER_STARTS:
            return _number(text)
        if text in NULLS:
            return None
        return BOOLEANS.get(text, text)

    def _tagged(self, tag: str, text: str) -> Json:
        match tag.removeprefix(STANDARD):
            case "str":
                return text
            case "null":
                return None
            case "bool" if text in BOOLEANS:
                return BOOLEANS[text]
            case "int" | "float" if not isinstance(number := _number(text), str):
                return number
        raise self._wrong(f"it has a value with the tag {tag[:80]!r}")

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise self._wrong(f"its aliases make it more than {MAX_GROWTH} times as large")

    def _wrong(self, why: str) -> YamlTextError:
        return YamlTextError(f"{why} (line {self._line + 1})")


def _number(text: str) -> Json:
    """A number, if the text is one that can be held exactly enough; else the text."""
    if INTEGER.fullmatch(text):
        return int(text)
    if BASED.fullmatch(text):
        return int(text, 0)
    if REAL.fullmatch(text) and abs(number := float(text)) != float("inf"):
        return number
    return text
