"""Headers, names that callers choose, and how long all of it may be."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.openapi.document.plan import Access, Where
from gateway.protocols.openapi.document.requests import MAX_HEAD_BYTES
from tests.unit.protocols.openapi.document.requesting import header, parameter, plan_of, refusal, send, sent_as

TENANT = parameter("header", "X-Tenant")


def test_openapi_39_a_header_cannot_be_ended_by_its_value() -> None:
    for bad in ("a\r\nX-Admin: 1", "a\nb", "\r", "a\x00b", "a\tb", "\x7f", "é", "\u2028", " a", "a ", " "):
        for value in (bad, [bad], {"a": bad}, {bad: "a"}):
            assert refusal(plan_of(TENANT), {"X-Tenant": value}).keys() == {"X-Tenant"}, value
    for good in ("a b", "a: b", '"quoted"', "(a); b=c", "~!@#$%^&*", ""):
        assert sent_as(TENANT, good) == good
    assert sent_as(TENANT, 10.0) == "10"
    assert sent_as(TENANT, True) == "true"


def test_headers_of_a_call_stand_once_and_in_order() -> None:
    plan = plan_of(TENANT, accept="text/plain", key_header="Idempotency-Key", method="POST")
    assert send(plan, {"X-Tenant": "t"}).headers == (
        *((b"accept", b"text/plain"), (b"x-tenant", b"t")),
        (b"idempotency-key", b'"call-1"'),
    )
    assert header(send(plan_of(key_header="Key", key_quoted=False), {}), "key") == "call-1"
    assert header(send(plan_of(), {}), "idempotency-key") is None


FREE: list[tuple[Where, dict[str, Any]]] = [
    ("query", {"explode": True}),
    ("cookie", {"explode": True}),
    ("cookie", {"style": "cookie", "explode": True}),
    ("querystring", {"media_type": "application/x-www-form-urlencoded"}),
]


@pytest.mark.parametrize(("where", "more"), FREE)
def test_names_that_callers_choose_are_never_those_of_others(where: Where, more: dict[str, Any]) -> None:
    free, page = parameter(where, "filter", **more), parameter("query" if where == "querystring" else where, "page")
    plan = plan_of(free, *([] if where == "querystring" else [page]), access=Access(key_names=("api_key",)))
    for name in ("api_key", "API_KEY", "api_key[]", *(["page", "Page[x]"] if where != "querystring" else [])):
        assert refusal(plan, {"filter": {name: "1"}}) == {"filter": "has a member with the name of another parameter"}
    assert "size=1" in repr(send(plan, {"filter": {"size": 1, "filter": 2}}))


def test_names_within_an_object_are_its_own() -> None:
    for more in ({"style": "deepObject"}, {"explode": False}, {"media_type": "application/json"}):
        assert send(
            plan_of(parameter("query", **more), access=Access(key_names=("a",))), {"color": {"a": 1}}
        ).path.startswith("/things?color")
    assert (
        send(plan_of(parameter("header", explode=True), access=Access(key_names=("a",))), {"color": {"a": 1}}).headers[
            1
        ][1]
        == b"a=1"
    )


@pytest.mark.parametrize("where", ["path", "query", "header", "cookie"])
def test_what_is_too_long_for_a_head_is_refused_by_name(where: Where) -> None:
    long, short = parameter(where, "long"), parameter(where, "short")
    why = {"long": "is too long to be sent in a path, a query or a header"}
    for value in (
        "x" * MAX_HEAD_BYTES,
        "é" * (MAX_HEAD_BYTES // 3),
        ["x"] * MAX_HEAD_BYTES,
        {"a": "x" * MAX_HEAD_BYTES},
    ):
        if where != "header" or "é" not in value:
            assert refusal(plan_of(long, short), {"long": value, "short": "a"}) == why
    half = "x" * (MAX_HEAD_BYTES // 2)
    assert refusal(plan_of(long, short), {"long": half + "x", "short": half}) == why
    assert send(plan_of(long, short), {"long": half, "short": "a"})
