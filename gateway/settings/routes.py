"""Settings of routes: which tools of which backend are published, to whom and under what conditions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, get_args

from gateway.settings.groups import ListOf, MapOf
from gateway.settings.keys import key, settings
from gateway.settings.kinds import UUID, Choice, Duration, Flag, Reference, Regex, SecretText, Text
from gateway.settings.secret import Secret
from gateway.settings.web import AuthorizationUrl

OutputCheck = Literal["off", "warn", "fail"]
OnTimeout = Literal["keep", "cancel"]
Decode = Literal["auto", "always", "never"]
EVERY_TOOL = "*"
OF_ROUTES_THAT_DENY = frozenset({"tools", "backend", "deny"})

GLOB = Text(r"[A-Za-z0-9_.@*?]{1,256}", "must be a pattern of letters, digits, and _ . @ * ?, such as 'Mail.*'")
ID = Text(r"[^\x00-\x20\x7f]{1,256}", "must be 1 to 256 characters without spaces")


@settings
class RouteSettings:
    """A filter over the tools of one backend; each tool takes the first route that matches it."""

    tools: str = key(GLOB, "Which tools, as a pattern over Toolkit.Tool@x.y.z; * and ? stand for anything.")
    backend: str = key(Reference("backends", "backend"), "The name of the backend that has the tools.")
    deny: bool = key(Flag(), "Whether these tools are hidden instead of published.", default=False)
    timeout_s: float | None = key(
        Duration("10ms", "1h"), "How long a call may take; left out, the timeout of the backend.", default=None
    )
    scopes: tuple[str, ...] = key(
        ListOf(ID), "The scopes a caller must have, all of them; without, the tools are hidden.", default=[]
    )
    secrets: Mapping[str, Secret] = key(
        MapOf(SecretText(), ID), "Secrets the gateway supplies to tools that declare these ids.", default={}
    )
    context: tuple[str, ...] = key(
        ListOf(ID), "Ids of tokens and secrets that go to the tools even when newly declared.", default=[]
    )
    authorization_urls: Mapping[str, str] = key(
        MapOf(AuthorizationUrl(), ID),
        "Where users grant access, by provider id; a call without the token is then refused with this URL.",
        default={},
    )
    idempotent: bool = key(
        Flag(), "Whether the tools may run twice for one call, so that a call cut off is sent again.", default=False
    )
    validate_output: OutputCheck = key(
        Choice(*get_args(OutputCheck)), "What happens when a result does not fit the tool's schema.", default="warn"
    )

    on_timeout: OnTimeout = key(
        Choice(*get_args(OnTimeout)),
        "What becomes of a callback or RCRT call that outlasts its timeout: keep waiting for it, or cancel it.",
        default="keep",
    )
    decode: Decode = key(
        Choice(*get_args(Decode)),
        "When the text of a callback tool is read as JSON: auto, where it is an object or an array.",
        default="auto",
    )
    failure_patterns: tuple[re.Pattern[str], ...] = key(
        ListOf(Regex()),
        "Patterns that the text of a callback tool begins with when it failed, besides 'Error: '.",
        default=[],
    )
    config_ids: tuple[str, ...] = key(
        ListOf(UUID), "The configurations of RCRT tools callers may pick with `config_id`; no others pass.", default=[]
    )

    def problems(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """A route that denies runs no calls, hence has nothing to say about them."""
        if self.deny:
            for name in written:
                if name not in OF_ROUTES_THAT_DENY:
                    yield name, "has no effect on a route with 'deny: true'"


def routes_never_reached(routes: Sequence[RouteSettings | None]) -> Iterator[tuple[int, str]]:
    """Finds routes all of whose tools an earlier route of the same backend takes: the same pattern, or `*`."""
    first: dict[tuple[str, str], int] = {}
    for index, route in enumerate(routes):
        if route is None:
            continue
        earlier = first.get((route.backend, EVERY_TOOL), first.get((route.backend, route.tools)))
        if earlier is not None:
            yield index, f"is never reached; routes[{earlier}] takes all of its tools first"
        first.setdefault((route.backend, route.tools), index)
