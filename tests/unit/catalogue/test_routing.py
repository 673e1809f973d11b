"""Routes and the snapshot that calls are routed by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalogue.routing import Router
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import Json, ToolRef
from gateway.core.ports import Caller
from tests.unit.published import published, route_to


def caller(scopes: str = "") -> Caller:
    return Caller(principal="key:test", scopes=frozenset(scopes.split()))


def resolved(router: Router, tool: str, version: str | None = None, scopes: str = "", by_name: bool = False) -> str:
    return router.resolve(ToolRef(tool=tool, version=version, by_name=by_name), caller(scopes)).definition.id


def refusal(router: Router, tool: str, version: str | None = None, scopes: str = "") -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        resolved(router, tool, version, scopes)
    return caught.value


@pytest.mark.parametrize(
    ("glob", "matches"),
    [
        ("*", True),
        ("Calculator.*", True),
        ("Calculator.Add", True),
        ("calculator.add", False),  # case counts
        ("Calculator.Add@*", True),
        ("Calculator.Add@1.*", True),
        ("Calculator.Add@2.*", False),
        ("Calculator", False),
        ("Calculator.A??", True),
        ("C*.Add", True),
        ("C*.Sub*", False),
        ("Calculator.Add@1.2.3", True),
    ],
)
def test_a_glob_sees_the_version_only_if_it_has_an_at_sign(glob: str, matches: bool) -> None:
    assert route_to(glob).matches("Calculator.Add", "1.2.3") is matches


def test_a_tool_without_usable_version_is_forbidden() -> None:
    router = Router([published("A.B@1.0.0", scopes="a"), published("A.B@2.0.0", scopes="b")])
    assert refusal(router, "A.B", scopes="c").code is ErrorCode.FORBIDDEN


def test_an_unknown_version_is_not_found_and_usable_ones_are_listed() -> None:
    router = Router([published("A.B@1.0.0"), published("A.B@2.0.0"), published("A.B@3.0.0", scopes="beta")])
    error = refusal(router, "A.B", "4.0.0")
    assert error.code is ErrorCode.TOOL_NOT_FOUND
    assert error.developer_message == "Its newest versions are 2.0.0, 1.0.0."


def test_few_of_a_thousand_versions_are_listed() -> None:
    router = Router([published(f"A.B@{number}.0.0") for number in range(1000)])
    message = refusal(router, "A.B", "1.2.3").developer_message
    assert message is not None
    assert message.startswith("Its newest versions are 999.0.0, 998.0.0, ")
    assert len(message) < 150


def test_a_tool_is_found_by_its_name() -> None:
    router = Router([published("A.B@1.0.0"), published("A.B@2.0.0")])
    assert resolved(router, "A_B", by_name=True) == "A.B@2.0.0"
    assert resolved(router, "A_B", "1.0.0", by_name=True) == "A.B@1.0.0"
    assert refusal(router, "A_B").code is ErrorCode.TOOL_NOT_FOUND


def test_callers_that_see_the_same_share_one_key() -> None:
    router = Router([published("A.Mail@1.0.0", scopes="mail")])
    one, other, blind = caller("mail unrelated"), caller("mail"), caller("unrelated")
    assert router.visible_key(one) == router.visible_key(other) != router.visible_key(blind)


NOT_PROMISED = "there is a value, of a tool that returns none"
ANY_INTEGER = {"type": "object", "properties": {"n": {"type": "integer"}}}
PROMISED: list[tuple[Json, Json, str]] = [  # output schema, value, what is wrong
    (ANY_INTEGER, {"n": 1}, ""),
    (ANY_INTEGER, {"n": "x"}, "at n: is not an integer"),
    ({}, {"n": 1}, ""),
    # Spec: OTC 1.0 and OXP 1.0, Tool: null indicates the tool does not return any value.
    (None, None, ""),
    (None, {}, NOT_PROMISED),
    (None, 0, NOT_PROMISED),
    (None, "", NOT_PROMISED),
    (None, False, NOT_PROMISED),
    (None, [None], NOT_PROMISED),
    ({"type": "nothing"}, 1, "The output schema cannot be used: "),
]


@pytest.mark.parametrize(("promised", "value", "wrong"), PROMISED)
def test_a_value_is_held_against_the_output_schema(promised: Json, value: Json, wrong: str) -> None:
    tool = published("A.B@1.0.0", output_schema=promised)
    first, second = tool.output_findings(value, 9), tool.output_findings(value, 9)
    assert first == second
    assert first is not None
    assert [one.sentence[: len(wrong)] for one in first] == [wrong] * bool(wrong)


VERSIONS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8, unique=True)


@given(
    VERSIONS, st.lists(st.sampled_from(["", "a", "b", "a b"]), min_size=8, max_size=8), st.sets(st.sampled_from("ab"))
)
def test_the_latest_is_the_highest_listed(versions: list[tuple[int, int]], scopes: list[str], held: set[str]) -> None:
    """Resolving and listing are two ways through the same tools."""
    tools = [published(f"A.B@{x}.{y}.0", scopes=needed) for (x, y), needed in zip(versions, scopes, strict=False)]
    router, who = Router(tools), caller(" ".join(held))
    listed = router.tools_for(who)
    if not listed:
        assert refusal(router, "A.B", scopes=" ".join(held)).code is ErrorCode.FORBIDDEN
    else:
        assert router.resolve(ToolRef(tool="A.B"), who) is listed[-1]
