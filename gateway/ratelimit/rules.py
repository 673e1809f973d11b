"""Rate limit rules: which requests each of them counts, by what, and in which calendar windows.

Windows are days and months in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import itemgetter
from typing import Literal, TypeAlias

from gateway.core.ports import Target

Window = Literal["day", "month"]

DAY_S = 86_400
LENGTHS_S: Mapping[Window, int] = {"day": DAY_S, "month": 31 * DAY_S}  # at most
LONGEST_S = max(LENGTHS_S.values())
# By how much a clock may go back across the end of a window: requests then count in the later one. A clock that goes
# back further was wrong, and nobody waits for the time that it showed.
AHEAD_S = 3600

Operation = Literal["call", "list", "poll", "listen", "failed_verification"]
Part = Literal["caller", "ip", "tool", "route"]
Identity: TypeAlias = str | tuple[str, ...]  # the text of a key of one part, the texts of one of several
Parts: TypeAlias = tuple[str, str, str, str]

ORDER: tuple[Part, ...] = ("caller", "ip", "tool", "route")  # of the texts in `Parts`
MAX_PLANS = 10_000  # remembered by operation and tool
NS_PER_S = 1_000_000_000
CALENDAR_STEP_S = LONGEST_S + 86_400  # more than is ever left of a window, also for a clock that has gone back


def current(window: Window, now_s: int, latest: tuple[int, int] | None) -> tuple[int, int]:
    """When the window that counts now begins and ends, in seconds since 1970; `latest` is the one that counted last."""
    began, ends = bounds(window, now_s // DAY_S)
    if latest is not None and began < latest[0] <= now_s + AHEAD_S:
        return latest
    return began, ends


@lru_cache(maxsize=16)
def bounds(window: Window, day: int) -> tuple[int, int]:
    """When the window with this day since 1970 begins and ends, in seconds since 1970."""
    if window == "day":
        return day * DAY_S, (day + 1) * DAY_S
    first = datetime.fromtimestamp(day * DAY_S, UTC).replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return int(first.timestamp()), int(following.timestamp())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """At most `count` requests in `per_s` seconds on average, and `burst` at once, for each identity.

    Time is counted in ticks of 1/`count` nanoseconds, in which the time between two requests is a whole number: nothing
    is rounded.

    With a `window` it is `burst` requests in each calendar day or month, all of which come back at its end; `count` is
    1 and `per_s` CALENDAR_STEP_S. The debt of a bucket is one `step` for each request but the first, and the ticks to
    the end for that. So for all rules `debt % step` is the time until there is one more.
    """

    name: str
    parts: tuple[Part, ...]  # of which an identity is made
    count: int
    per_s: int
    burst: int
    operations: frozenset[Operation] = frozenset({"call", "list"})
    tools: tuple[str, ...] = ()  # globs as routes have them; with these or `backends` it is for such calls only
    backends: frozenset[str] = frozenset()
    window: Window | None = None
    step: int = field(init=False)  # ticks that one request costs
    depth: int = field(init=False)  # ticks that an empty bucket takes to fill
    ticks_per_s: int = field(init=False)
    label: bytes = field(init=False, repr=False)
    is_brisk: bool = field(init=False)  # there is one more within a second, always
    item: bytes = field(init=False, repr=False)  # of the RateLimit header, without `r`, and without `t` unless brisk
    identity: Callable[[Parts], Identity] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.parts or min(self.count, self.per_s, self.burst) < 1:
            raise ValueError(f"the rate limit {self.name} counts nothing")
        put = object.__setattr__
        put(self, "step", self.per_s * NS_PER_S)
        put(self, "ticks_per_s", self.count * NS_PER_S)
        put(self, "depth", self.step * self.burst)
        put(self, "label", self.name.encode("ascii"))
        put(self, "is_brisk", self.step <= self.ticks_per_s)
        put(self, "item", (b'"%s";r=%%d;t=1' if self.is_brisk else b'"%s";r=%%d;t=%%d') % self.label)
        put(self, "identity", itemgetter(*(ORDER.index(part) for part in ORDER if part in self.parts)))

    def debt_of(self, used: int, left: int) -> int:
        """The debt in a calendar window of which so many ticks are left. A limit may be less than what is used."""
        return (min(used, self.burst) - 1) * self.step + left if used else 0

    def is_like(self, other: Rule) -> bool:
        """Whether both are configured alike; they are different rules all the same."""
        return all(getattr(self, member.name) == getattr(other, member.name) for member in fields(self) if member.init)

    @property
    def needs_target(self) -> bool:
        """Whether only a call whose tool is known can meet it."""
        return bool(self.tools or self.backends or {"tool", "route"}.intersection(self.parts))

    def concerns(self, operation: Operation, target: Target | None) -> bool:
        """Whether the rule counts such a request."""
        if operation not in self.operations:
            return False
        if target is None:
            return not self.needs_target
        if self.backends and target.backend not in self.backends:
            return False
        return not self.tools or any(_matches(glob, target) for glob in self.tools)


def _matches(glob: str, target: Target) -> bool:
    return fnmatchcase(f"{target.tool}@{target.version}" if "@" in glob else target.tool, glob)


@dataclass(frozen=True, slots=True, eq=False)
class LimitPlan:
    """The rules that one request meets."""

    rules: tuple[Rule, ...]
    policy: tuple[bytes, bytes] = field(init=False)  # the header that describes them
    is_one_rate: bool = field(init=False)  # a single rule, without a window

    def __post_init__(self) -> None:
        items = b", ".join(_policy(rule) for rule in self.rules)
        object.__setattr__(self, "policy", (b"ratelimit-policy", items))
        object.__setattr__(self, "is_one_rate", len(self.rules) == 1 and self.rules[0].window is None)


def _policy(rule: Rule) -> bytes:
    """A rule as draft-ietf-httpapi-ratelimit-headers-10, section 3, describes it.

    The quota is the burst, as `r` of section 4 may be as much, and the window the time in which all of it comes back:
    whole seconds, rounded up, so that it never promises more than the rule. Of a month it is that of the longest.
    """
    window_s = -(-rule.depth // rule.ticks_per_s) if rule.window is None else LENGTHS_S[rule.window]
    return b'"%s";q=%d;w=%d' % (rule.label, rule.burst, window_s)


class LimitPlans:
    """Finds the rules of a request; `of` remembers the plan of each kind of request."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.of = lru_cache(maxsize=MAX_PLANS)(self._of)
        self._plans: dict[tuple[Rule, ...], LimitPlan] = {}

    def _of(self, operation: Operation, target: Target | None = None) -> LimitPlan:
        kind: Operation = "list" if operation == "listen" else operation
        rules = tuple(rule for rule in self.rules if rule.concerns(kind, target))
        return self._plans.setdefault(rules, LimitPlan(rules))
