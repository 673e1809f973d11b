"""Whatever the arguments are: requests stay what the document says, and frameworks read what callers sent."""

from __future__ import annotations

import posixpath
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.wire import WireRequest
from gateway.net.client.requesthead import encode_head
from gateway.protocols.openapi.document.plan import Access, CallPlan, Parameter, Style, Where
from gateway.protocols.openapi.document.requests import request_of
from tests.unit.protocols.openapi.document.requesting import parameter, plan_of

MEANING = r"""./\%;?#&=+,:|[]{}"' @""" + "\r\n\t\x00\x7f\xa0é\uff0e\u2025\U0001f600"
WORDS = ["..", "%2e%2e", "../x", "a%2fb", "x\r\nX-Admin: 1", "page", "api_key", "a&page=2", "é b", "%25", "a", "2e"]

STYLES: dict[Where, list[Style]] = {
    "path": ["simple", "label", "matrix"],
    "query": ["form", "spaceDelimited", "pipeDelimited", "deepObject"],
    "header": ["simple"],
    "cookie": ["form", "cookie"],
}
NAMES: list[tuple[Where, str]] = [
    *(("path", "id"), ("path", "name"), ("query", "filter")),
    *(("query", "page"), ("header", "X-Tenant"), ("cookie", "session")),
]
CASES = 3000  # in half a second; Hypothesis takes a minute for as many


def any_text(rng: Random) -> str:
    return "".join(rng.choice(rng.choice([MEANING, WORDS])) for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 5])))


def any_value(rng: Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth < 3 and kind < 0.2:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if depth < 3 and kind < 0.4:
        return {any_text(rng): any_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return any_text(rng) if kind < 0.9 else rng.choice([None, True, 0, -1, 2**70, 1.5, 1e300])


def any_parameter(rng: Random, where: Where, name: str) -> Parameter:
    return parameter(
        where,
        name,
        rng.choice(STYLES[where]),
        explode=rng.random() < 0.5,
        allow_reserved=rng.random() < 0.5,
        media_type=rng.choice(["", "", "", "application/json", "text/plain"]),
        deep_arrays=rng.choice(["repeat", "brackets", "indexes"]),
    )


def test_openapi_38_39_whatever_the_arguments_the_request_is_the_documents() -> None:
    sent = 0
    for seed in range(CASES):
        rng = Random(seed)
        each = [any_parameter(rng, where, name) for where, name in NAMES]
        plan = plan_of(*each, path="/v1/{id}/keys/x-{name}.json", access=Access(key_names=("api_key",)))
        values = {"id": "7", "name": "x"} | {one.argument: any_value(rng) for one in each if rng.random() < 0.3}
        try:
            request = request_of(plan, values, "call-1")
        except GatewayError as refused:
            check_refusal(refused, plan)
        else:
            sent += 1
            check_request(request, free_names(plan, values))
    assert CASES // 5 < sent < CASES  # else this test shows little


def check_refusal(refused: GatewayError, plan: CallPlan) -> None:
    assert refused.code is ErrorCode.INVALID_ARGUMENTS
    assert refused.parameters
    assert refused.parameters.keys() <= {one.argument for one in plan.parameters}


def check_request(request: WireRequest, chosen: set[str]) -> None:
    """Checks that a request goes where the plan says, and has the names that it says or that its caller may choose."""
    encode_head(request.method, request.path.encode("ascii"), b"host", request.headers)  # refuses what ends a line
    path, _, query = request.path.partition("?")
    first, version, id_, keys, name = path.split("/")
    assert (first, version, keys, name[:2], name[-5:]) == ("", "v1", "keys", "x-", ".json")
    assert id_
    while unquote(path) != path:
        path = unquote(path)
        assert posixpath.normpath(path) == path
        assert path.count("/") == 4
    for found in (key for key, _ in parse_qsl(query, keep_blank_values=True)):
        assert found in ("filter", "page", *chosen) or found.startswith(("filter[", "page["))
        assert found != "api_key"
    names = [found for found, _ in request.headers]
    assert len(set(names)) == len(names)
    assert set(names) <= {b"accept", b"x-tenant", b"cookie"}


def free_names(plan: CallPlan, values: dict[str, Any]) -> set[str]:
    """The names that exploded objects have of their caller."""
    objects = (values.get(one.argument) for one in plan.parameters if one.explode and one.where == "query")
    return {name for value in objects if isinstance(value, dict) for name in value}
