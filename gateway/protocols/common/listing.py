"""Reads whole lists of tools into definitions, as text, so that another process can do it.

A list of 64 MiB can hold twenty million tools, or one with as many values. What is returned keeps to bounds, so that
decoding it takes neither much memory nor long at a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec import Raw, Struct

from gateway.core.jsontext import encode
from gateway.core.model import Json, Rejected, ToolDefinition
from gateway.protocols.common.texts import is_suspect, with_visible_texts

# A value takes about 100 bytes in memory, on top of its text.
MAX_TOOL_VALUES = 50_000  # of one tool: some 5 ms to decode
MAX_VALUES = 1_500_000  # of all tools of a list; 20,000 of six parameters have a million
MAX_BYTES = 32 * 1024 * 1024  # of all tools of a list, as text
AS_SENT = 4  # times as long as we write it: spaces, and letters written as \u00e9
PART_BYTES = 64 * 1024  # of definitions that are decoded at once, below 3 ms
MAX_SHOWN = 256  # characters of an id in a log
NO_REPORT = Raw(b"{}")


class Bounds(Struct, frozen=True):
    """The bounds of a backend's list."""

    backend: str
    toolkit: str  # of tools whose ids name none
    max_tools: int
    max_schema_bytes: int
    has_version: bool = False  # the list came with OXP-Version
    trust_meta: bool = False  # an MCP server is believed what it says in `_meta` as another Toolgate


class Group(Struct, frozen=True, kw_only=True):
    """A sentence about several things of a list, by their ids."""

    text: str
    ids: tuple[str, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """What else an operator may want to know of a list: what it was made of, and what became of each part."""

    facts: tuple[tuple[str, str], ...] = ()  # each with its name
    left_out: tuple[Group, ...] = ()  # by the operator, with the reasons
    notes: tuple[Group, ...] = ()  # worth a look
    choices: tuple[str, ...] = ()  # lines for the configuration that choose the parts one by one


class Summary(Struct, frozen=True):
    """What was read besides tools."""

    note: str = ""  # about the tool server: its dialect, the URL for calls, or the id of its breadcrumb
    rejected: tuple[Rejected, ...] = ()
    adapted: tuple[tuple[str, str], ...] = ()  # tools whose names were adapted, each with the reason
    failure: str = ""  # why there is no list; empty if there is one
    fresh_s: float | None = None  # as in Listing
    report: Raw = NO_REPORT  # a Report, as text


decode_bounds = msgspec.json.Decoder(Bounds).decode
decode_summary = msgspec.json.Decoder(Summary).decode
decode_report = msgspec.json.Decoder(Report).decode
decode_tool = msgspec.json.Decoder(ToolDefinition).decode
decode_tools = msgspec.json.Decoder(list[ToolDefinition]).decode


def most_as_sent(max_schema_bytes: int) -> int:
    """The longest text of one tool that may still keep the bounds: two schemas, and as much for all else it says."""
    return AS_SENT * 3 * max_schema_bytes


class ListBuilder:
    """The tools of a list that keep its bounds, as text."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._tools: list[tuple[str, str, bytes]] = []  # id, the tool server's own id, text
        self._bytes = self._values = 0
        self.rejected: list[Rejected] = []

    def add(self, definition: ToolDefinition, encode_short: Callable[[ToolDefinition], bytes] | None = None) -> bool:
        """Adds a tool, or says why not. `encode_short` writes it in another way, once it keeps the bounds.

        What is said of it loses characters that do not show.
        """
        text = encode(definition)
        if is_suspect(text):
            definition = with_visible_texts(definition)
            text = encode(definition)
        values = most_values(text)
        reason = too_large(definition, len(text), self.bounds.max_schema_bytes)
        if reason is None and values > MAX_TOOL_VALUES:
            reason = f"It holds some {values} values; {MAX_TOOL_VALUES} are allowed."
        if reason is None and (self._bytes + len(text) > MAX_BYTES or self._values + values > MAX_VALUES):
            reason = f"With it the tools hold more than {MAX_VALUES} values, or {MAX_BYTES} bytes, which is the most."
        if reason is not None:
            self.reject(definition.id, reason)
            return False
        self._bytes, self._values = self._bytes + len(text), self._values + values
        text = text if encode_short is None else encode_short(definition)
        self._tools.append((definition.id, definition.remote_id, text))
        return True

    def reject(self, tool_id: str, reason: str) -> None:
        """Leaves a tool out."""
        self.rejected.append(Rejected(id=tool_id, reason=reason))

    def numbered(self, entries: Iterable[Json]) -> Iterator[tuple[int, Json]]:
        """The entries of a list with their numbers, as many as may be looked at; the rest is reported as rejected."""
        most = self.bounds.max_tools
        for count, entry in enumerate(entries, 1):
            if count > most:
                reason = f"It lists more than {most} tools; only the first {most} are looked at."
                self.reject(self.bounds.backend, reason)
                return
            yield count, entry

    def drop_ambiguous(self, listed: Mapping[str, int]) -> None:
        """Takes out tools that a caller of another version would run.

        `listed`: how often each id stands in the list, without its version, usable or not. An id with a version names
        that one; without, whichever version the tool server takes for the latest.
        """
        named = Counter(remote_id for _, remote_id, _ in self._tools)
        ambiguous = {name for name, count in named.items() if count > 1 or ("@" not in name and listed[name] > 1)}
        reason = "its tool server lists several tools under this id, and no version tells them apart"
        for tool_id, remote_id, _ in self._tools:
            if remote_id in ambiguous:
                self.reject(tool_id, reason)
        self._tools = [tool for tool in self._tools if tool[1] not in ambiguous]

    def tell_apart(self, renamed: Callable[[ToolDefinition], ToolDefinition]) -> None:
        """Renames tools that share an id, all but the first in the order of what their tool server calls them."""
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, (tool_id, _, _) in enumerate(self._tools):
            places[tool_id].append(place)
        for several in places.values():
            for place in sorted(several, key=lambda place: self._tools[place][1])[1:]:
                _, remote_id, text = self._tools[place]
                definition = renamed(decode_tool(text))
                self._tools[place] = definition.id, remote_id, encode(definition)

    def encoded(
        self,
        note: str,
        adapted: tuple[tuple[str, str], ...] = (),
        fresh_s: float | None = None,
        report: Raw = NO_REPORT,
    ) -> tuple[bytes, ...]:
        """A Summary, then arrays of ToolDefinition, all of them JSON text."""
        return encode(Summary(note, tuple(self.rejected), adapted, fresh_s=fresh_s, report=report)), *joined(
            text for _, _, text in self._tools
        )


def joined(texts: Iterable[bytes]) -> Iterator[bytes]:
    """JSON arrays of texts, each short or of one text."""
    part: list[bytes] = []
    size = 0
    for text in texts:
        if part and size + len(text) > PART_BYTES:
            yield b"[%b]" % b",".join(part)
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield b"[%b]" % b",".join(part)


def most_values(text: bytes) -> int:
    """At least how many values a text holds, and hardly more: each follows a bracket or a comma."""
    return text.count(b",") + text.count(b"{") + text.count(b"[") + 1


def too_large(definition: ToolDefinition, size: int, most: int) -> str | None:
    """Why a definition of that many bytes is too much for the list of every caller; None when it is not."""
    schemas = {"input": definition.input_schema, "output": definition.output_schema}
    sizes = {which: 0 if schema is None else len(encode(schema)) for which, schema in schemas.items()}
    for which, bytes_ in sizes.items():
        if bytes_ > most:
            return f"Its {which} schema has {bytes_} bytes; {most} are allowed."
    rest = size - sum(sizes.values())  # descriptions, examples, what it requires
    return f"Besides its schemas it has {rest} bytes; {most} are allowed." if rest > most else None
