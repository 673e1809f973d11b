"""Settings of rate limits: how often who may do what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Literal, get_args

from gateway.configfile import yamlnode
from gateway.configfile.cursor import Cursor, ParseContext
from gateway.configfile.sections import Items, ListOf, Section, find_repeats, setting
from gateway.configfile.substitution import InvalidValueError
from gateway.configfile.values import GLOB, BackendName, Choice, Integer, Text
from gateway.core.did_you_mean import suggestion

Window = Literal["day", "month"]
LimitPart = Literal["caller", "ip", "tool", "route"]
OnFailure = Literal["local", "refuse", "allow"]
LimitOperation = Literal["call", "list", "poll", "failed_verification"]

PARTS: tuple[LimitPart, ...] = get_args(LimitPart)
WILD = re.compile(r"[*?]")  # in a pattern of tools
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "day": 86400, "month": 28 * 86400}
WINDOWS: dict[str, Window] = {"day": "day", "month": "month"}
FASTEST = 1_000_000  # a second: the clock of Redis counts microseconds
LONGEST_REFILL_S = 30 * 86400  # so that the state of a caller that has gone away expires
MAX_BURST = 1_000_000
MAX_LIMITS = 16  # all of them are asked for every call, with Redis in one script
BUILT_IN = "failed-verifications"
# Limits that no other replaces.
ALWAYS_THERE = frozenset({"challenge-looks", "challenge-looks-address", "console-logins"})
FAILED_VERIFICATION = "failed_verification"

NAME = Text(
    r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "must be letters, digits, - and _, at most 64, and begin with a letter or digit"
)


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests in so many seconds on average, or in each day or month of the calendar."""

    count: int
    per_s: int
    window: Window | None = None

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Reads `50/s` or `10000/day`. Raises InvalidValueError."""
        count, unit = text.split("/")
        rate = cls(int(count), UNITS_S[unit], WINDOWS.get(unit))
        if not 1 <= rate.count <= FASTEST * rate.per_s:
            raise InvalidValueError(f"must be a rate from 1/{unit} to {FASTEST}/s")
        return rate

    def __str__(self) -> str:
        units = {each_s: unit for unit, each_s in UNITS_S.items() if unit not in WINDOWS}
        return f"{self.count}/{self.window or units.get(self.per_s, f'{self.per_s}s')}"


def parse_limit_key(text: str) -> tuple[LimitPart, ...]:
    """Reads one part, or several joined by `+` in any order. Raises InvalidValueError."""
    words = [word.strip() for word in text.split("+")]
    for word in words:
        if word not in PARTS:
            choices = f"{', '.join(PARTS)}, or several of them joined by +"
            raise InvalidValueError(f"must be one of {choices}{suggestion(word, PARTS)}")
    if len(set(words)) < len(words):
        raise InvalidValueError("names the same part twice")
    return tuple(part for part in PARTS if part in words)


RATE = Text(
    r"[0-9]{1,12}/(s|m|h|d|day|month)",
    "must be a rate such as 50/s, 30/m, 1000/h or 5000/d, or a number for each day or month of the calendar, such as "
    "10000/day or 300000/month",
    Rate.parse,
    title="rate, such as `50/s` or `10000/day`",
    if_missing=Rate(1, 1),
)
LIMIT_KEY = Text(
    convert=parse_limit_key, title="`caller`, `ip`, `tool` or `route`, or several joined by `+`", if_missing=("caller",)
)


def _matches_published(value: str, cursor: Cursor) -> str:
    patterns = route_patterns(cursor.context)
    if any(overlap(value, pattern) for pattern in patterns):
        return value
    raise InvalidValueError(f"matches no tool of any route{suggestion(value, patterns)}")


PublishedTools = Annotated[str, Text(GLOB.pattern, GLOB.must, resolve=_matches_published)]


def route_patterns(context: ParseContext) -> list[str]:
    """The patterns of the routes of a file that do not deny, whatever else is wrong with them."""
    sections = [node.value for node in yamlnode.values(context.root, "routes")[:1]]
    routes = [route for routes in sections if isinstance(routes, list) for route in routes]
    open_ = [route for route in routes if "true" not in _texts(route, "deny")]
    patterns = [text for route in open_ for text in _texts(route, "tools")]
    return ["*" if "$" in pattern else pattern for pattern in patterns]  # what is put in may be any


def _texts(node: yamlnode.Node, name: str) -> list[str]:
    return [value.value for value in yamlnode.values(node, name) if isinstance(value.value, str)]


class RateLimitSettings(Section):
    """One limit, shared by requests with the same key. What one limit refuses is not counted by the others."""

    name: Annotated[str, NAME] = setting(..., "The name of the limit, in answers, metrics and logs.")
    key: Annotated[tuple[LimitPart, ...], LIMIT_KEY] = setting(
        ..., "What has a count of its own: each caller, each IP address, each tool, each route, or each combination."
    )
    rate: Annotated[Rate, RATE] = setting(
        ...,
        "The number of requests on average, such as 50/s, 30/m, 1000/h or 5000/d, or for each day or month of the "
        "calendar in UTC: 10000/day, 300000/month.",
    )
    burst: Annotated[int, Integer(1, MAX_BURST)] | None = setting(
        None, "The number of requests at once. By default, the number in `rate`; always with /day and /month."
    )
    operations: Annotated[tuple[Choice[LimitOperation], ...], Items(at_least=1)] = setting(
        ["call", "list"],
        "What counts: calls, lists of tools, polls for results, or credentials that were refused.",
    )
    tools: ListOf[PublishedTools] = setting([], "Patterns of the tools whose calls count. If empty, all calls count.")
    backends: ListOf[BackendName] = setting([], "The backends whose calls count. If empty, all calls count.")

    @property
    def at_once(self) -> int:
        """The burst, whether written or not."""
        if self.rate.window is not None:
            return self.rate.count
        return min(self.rate.count, MAX_BURST) if self.burst is None else self.burst

    @property
    def is_local(self) -> bool:
        """Whether each process counts by itself: it counts before anything but the address is known."""
        return self.key == ("ip",) and not (self.tools or self.backends)

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.rate.window is not None:
            if self.burst is not None:
                yield "burst", f"has no effect with /{self.rate.window}, all of whose requests may come at once"
        elif self.at_once * self.rate.per_s > LONGEST_REFILL_S * self.rate.count:
            yield "burst", "takes more than 30 days to come back at this rate"
        if self.name in ALWAYS_THERE:
            yield "name", "is that of a built-in limit"
        if FAILED_VERIFICATION in self.operations:
            yield from self._problems_of_failures()
        elif self.name == BUILT_IN:
            yield "name", f"is that of the built-in limit; it counts operations: [{FAILED_VERIFICATION}]"
        elif "operations" in self.model_fields_set:
            yield from self._problems_of_targets()

    def _problems_of_failures(self) -> Iterator[tuple[str, str]]:
        if len(self.operations) > 1:
            yield "operations", f"must list {FAILED_VERIFICATION} alone"
        if self.key != ("ip",):
            yield (
                "key",
                f"must be ip where {FAILED_VERIFICATION} counts, since nothing else is known of the caller then",
            )
        for name in ("tools", "backends"):
            if name in self.model_fields_set:
                yield name, f"has no effect where {FAILED_VERIFICATION} counts"

    def _problems_of_targets(self) -> Iterator[tuple[str, str]]:
        other = [operation for operation in self.operations if operation != "call"]
        if other and (self.tools or self.backends or {"tool", "route"}.intersection(self.key)):
            yield "operations", f"must list call alone: this limit is on tools, and a {other[0]} names none"


def limits_that_clash(limits: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Finds limits of the same name, and those beyond the number there may be."""
    for index, first in find_repeats(limits, attrgetter("name")):
        yield index, f"has the name of rate_limits[{first}]"
    for index in range(MAX_LIMITS, len(limits)):
        yield index, f"is more than the {MAX_LIMITS} limits there may be; each is checked for every call"


def overlap(one: str, other: str) -> bool:
    """Whether any tool matches both; a pattern without `@` speaks of every version.

    An id has one `@`, so that the one of a pattern stands for it, and wildcards never do.
    """
    (tool, _, version), (other_tool, _, other_version) = (
        (glob if "@" in glob else f"{glob}@*").partition("@") for glob in (one, other)
    )
    return "@" not in version + other_version and _meet(tool, other_tool) and _meet(version, other_version)


def _meet(one: str, other: str) -> bool:
    """Whether some text matches both: walks them together, at most 66,000 pairs of places."""
    shorter, longer = sorted((WILD.split(glob, maxsplit=1)[0] for glob in (one, other)), key=len)
    if not longer.startswith(shorter):
        return False  # most of a large file, at no cost
    visited: set[tuple[int, int]] = set()
    places = [(0, 0)]
    while places:
        here, there = places.pop()
        mine, theirs = one[here : here + 1], other[there : there + 1]
        if not (mine or theirs):
            return True
        if (here, there) in visited:
            continue
        visited.add((here, there))
        if "*" in (mine, theirs):  # stands for nothing, or for what the other pattern has here
            places += [(here + 1, there)] if mine else []
            places += [(here, there + 1)] if theirs else []
        elif mine == theirs or (mine and theirs and "?" in (mine, theirs)):
            places.append((here + 1, there + 1))
    return False
