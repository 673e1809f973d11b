"""Settings of routes: which tools of which backend are published, to whom and under what conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.configfile.sections import ByName, ListOf, Section, setting
from gateway.configfile.substitution import InvalidValueError
from gateway.configfile.values import GLOB, ID, BackendName, Choice, Duration, Flag, Secret, Text, Uuid
from gateway.configfile.web import AuthorizationUrl

InputCheck = Literal["strict", "coerce", "off"]
OutputCheck = Literal["off", "warn", "fail"]
OnTimeout = Literal["keep", "cancel"]
Decode = Literal["auto", "always", "never"]
EVERY_TOOL = "*"
OF_ROUTES_THAT_DENY = frozenset({"tools", "backend", "deny"})


def compile_regex(text: str) -> re.Pattern[str]:
    """Compiles a pattern in Python's syntax. Raises InvalidValueError."""
    try:
        return re.compile(text)
    except re.error as exc:
        raise InvalidValueError(f"is no regular expression: {exc.msg}") from None


Regex = Annotated[
    re.Pattern[str],
    Text(convert=compile_regex, any_scalar=True, title="regular expression", if_missing=re.compile("missing")),
]


class RouteSettings(Section):
    """Publishes tools of one backend. A tool belongs to the first route that matches it and whose backend lists it."""

    tools: Annotated[str, GLOB] = setting(
        ..., "The tools: a pattern of Toolkit.Tool@x.y.z, in which * and ? match anything."
    )
    backend: BackendName = setting(..., "The name of the backend that has the tools.")
    deny: Flag = setting(False, "Whether these tools are hidden instead of published.")
    timeout_s: Annotated[float, Duration("10ms", "1h")] | None = setting(
        None, "How long a call may take. By default, the timeout of the backend."
    )
    scopes: ListOf[Annotated[str, ID]] = setting(
        [], "The scopes that a caller needs. Callers who lack one do not see these tools."
    )
    secrets: Annotated[Mapping[str, Annotated[SecretStr, Secret()]], ByName(ID)] = setting(
        {}, "Secrets that the gateway supplies, by id, to tools that ask for them."
    )
    context: ListOf[Annotated[str, ID]] = setting(
        [],
        "Ids of tokens and secrets that are passed on even to a tool that began to ask for them only after the "
        "gateway started.",
    )
    authorization_urls: Annotated[Mapping[str, AuthorizationUrl], ByName(ID)] = setting(
        {}, "Pages where users consent, by the id of the provider. A call without the token is refused with this URL."
    )
    idempotent: Flag = setting(
        False, "Whether the tools may run twice for one call. If so, a call whose connection breaks is sent once more."
    )
    validate_input: Choice[InputCheck] = setting(
        "strict",
        "What happens when arguments do not fit the tool's schema. `strict`: the call is refused. `coerce`: strings "
        "that hold the JSON of an array, object, number or boolean become that where the schema allows it, and nulls "
        "of optional members are left out; then as `strict`. `off`: they are sent as they are.",
    )
    validate_output: Choice[OutputCheck] = setting("warn", "What happens when a result does not fit the tool's schema.")

    on_timeout: Choice[OnTimeout] = setting(
        "keep",
        "What happens to a callback or RCRT call that takes longer than its timeout: `keep` waits for its result, "
        "`cancel` cancels it.",
    )
    decode: Choice[Decode] = setting(
        "auto", "When a text from a callback tool is read as JSON. `auto`: if it is an object or array."
    )
    failure_patterns: ListOf[Regex] = setting(
        [], "How the text of a failed callback tool begins, in addition to 'Error: '."
    )
    config_ids: ListOf[Uuid] = setting([], "The RCRT configurations that callers may choose with `config_id`.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.deny:
            for name in self.model_fields_set - OF_ROUTES_THAT_DENY:
                yield name, "has no effect on a route with 'deny: true'"


def routes_never_reached(routes: Sequence[RouteSettings | None]) -> Iterator[tuple[int, str]]:
    """Finds routes all of whose tools an earlier route of the same backend takes: the same pattern, or `*`."""
    first: dict[tuple[str, str], int] = {}
    for index, route in enumerate(routes):
        if route is None:
            continue
        earlier = first.get((route.backend, EVERY_TOOL), first.get((route.backend, route.tools)))
        if earlier is not None:
            yield index, f"is never reached; routes[{earlier}] matches all of its tools first"
        first.setdefault((route.backend, route.tools), index)
