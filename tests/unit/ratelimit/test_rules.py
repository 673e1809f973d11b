"""Which rules count a request, and by what identity."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.ports import Target
from gateway.ratelimit.rules import LimitPlans, Operation
from tests.unit.ratelimit.model import parts, rule

WEB = Target("Search.Web", "1.2.0", "search", "search/*")

MEETS: list[tuple[dict[str, Any], Operation, Target | None, bool]] = [
    ({}, "call", WEB, True),
    ({}, "call", None, True),  # a call that could not be read counts, too
    ({}, "list", None, True),
    ({}, "poll", None, False),  # polls have rules of their own
    ({"operations": frozenset({"poll"})}, "poll", None, True),
    ({"operations": frozenset({"poll"})}, "call", WEB, False),
    ({"tools": ("Search.*",)}, "call", WEB, True),
    ({"tools": ("Mail.*", "Search.W?b")}, "call", WEB, True),
    ({"tools": ("Mail.*",)}, "call", WEB, False),
    ({"tools": ("search.*",)}, "call", WEB, False),
    ({"tools": ("*@1.*",)}, "call", WEB, True),
    ({"tools": ("*@2.*",)}, "call", WEB, False),
    ({"tools": ("*",)}, "call", None, False),
    ({"tools": ("*",)}, "list", None, False),
    ({"backends": frozenset({"search"})}, "call", WEB, True),
    ({"backends": frozenset({"mail"})}, "call", WEB, False),
    ({"backends": frozenset({"search"})}, "call", None, False),
    ({"parts": ("caller", "tool")}, "call", WEB, True),
    ({"parts": ("caller", "tool")}, "list", None, False),
    ({"parts": ("route",)}, "call", None, False),
]


@pytest.mark.parametrize(("written", "operation", "target", "meets"), MEETS)
def test_a_rule_counts_the_requests_that_it_names(
    written: dict[str, Any], operation: Operation, target: Target | None, meets: bool
) -> None:
    assert bool(LimitPlans([rule(**written)]).of(operation, target).rules) is meets


@pytest.mark.parametrize(
    ("key", "identity"),
    [
        (("caller",), "key:a"),
        (("ip",), "10.0.0.1"),
        (("tool", "caller"), ("key:a", "Search.Web")),  # the order of the file means nothing
        (("route", "ip", "caller", "tool"), ("key:a", "10.0.0.1", "Search.Web", "search/*")),
    ],
)
def test_a_key_names_what_has_its_own_bucket(key: Any, identity: object) -> None:
    assert rule(parts=key).identity(parts()) == identity


def test_plans_are_worked_out_once_and_shared_by_all_tools_of_the_same_limits() -> None:
    plans = LimitPlans([rule(), rule("search", tools=("Search.*",))])
    assert plans.of("call", WEB) is plans.of("call", WEB._replace(tool="Search.Maps"))
    assert plans.of("call", WEB) is not plans.of("call", WEB._replace(tool="Mail.Send"))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"burst": 0}, {"per_s": 0}, {"parts": ()}])
def test_a_limit_that_counts_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="counts nothing"):
        rule(**wrong)
