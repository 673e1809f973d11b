"""Tools that may yet be listed: which calls are refused as unavailable, and which as unknown."""

from __future__ import annotations

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import ToolRef
from gateway.core.ports import Caller
from gateway.core.tool_names import published_name
from tests.unit.catalogue.asking import DOWN, ToolServer, one_backend, route, running, source, tool

LONG = f"Toolkit.{'x' * 80}"


def code(
    catalogue: Catalogue, name: str, scopes: str = "", *, hide: bool = False, by_name: bool = False
) -> ErrorCode | None:
    """Why a tool cannot be called, None when it can."""
    named, _, version = name.partition("@")
    caller = Caller(principal="key:test", scopes=frozenset(scopes.split()))
    try:
        catalogue.router.resolve(ToolRef(tool=named, version=version or None, by_name=by_name), caller, hide)
    except GatewayError as refused:
        return refused.code
    return None


WAITS, NONE, FORBIDDEN = ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.TOOL_NOT_FOUND, ErrorCode.FORBIDDEN


def unlisted(*routes: tuple[str, dict[str, object]]) -> Catalogue:
    """A catalogue that has not asked yet."""
    server = ToolServer("crm")
    return Catalogue([source(server, [route(server, tools, **settings) for tools, settings in routes])])


@pytest.mark.parametrize(
    ("tools", "name", "expected"),
    [
        ("*", "A.B", WAITS),
        ("A.*", "A.B", WAITS),
        ("A.*", "B.B", NONE),
        ("A.B", "A.B@3.0.0", WAITS),
        ("A.B@2.*", "A.B", WAITS),
        ("A.B@2.*", "A.B@2.1.0", WAITS),
        ("A.B@2.*", "A.B@3.0.0", NONE),
    ],
)
def test_a_tool_that_a_route_could_publish_may_come(tools: str, name: str, expected: ErrorCode) -> None:
    assert code(unlisted((tools, {})), name) is expected


def test_the_first_route_that_matches_decides() -> None:
    catalogue = unlisted(("A.Hidden", {"deny": True}), ("A.Some@1.*", {"deny": True}), ("A.*", {}))
    assert code(catalogue, "A.Hidden") is NONE
    assert code(catalogue, "A.Some@1.0.0") is NONE
    assert code(catalogue, "A.Some@2.0.0") is WAITS
    assert code(catalogue, "A.Some") is WAITS
    assert code(catalogue, "A.Other") is WAITS


@pytest.mark.parametrize("hide", [False, True])
def test_missing_scopes_hide_unlisted_tools(hide: bool) -> None:
    catalogue = unlisted(("A.*@2.*", {"scopes": frozenset({"beta"})}), ("A.*", {"scopes": frozenset({"a"})}))
    assert code(catalogue, "A.B", hide=hide) is NONE
    assert code(catalogue, "A.B", "a", hide=hide) is WAITS
    assert code(catalogue, "A.B@2.0.0", "a", hide=hide) is NONE
    assert code(catalogue, "A.B@2.0.0", "a beta", hide=hide) is WAITS


@pytest.mark.parametrize(
    ("tools", "name", "expected"),
    [
        ("A.*", "A_B", WAITS),
        ("A.*", "B_B", NONE),
        ("A.B_C", "A_B_C", WAITS),
        ("A_B.C", "A_B_C", WAITS),
        ("A.B.C", "A_B_C", NONE),
        ("*", "A-B_C", NONE),
        ("*", "_A", NONE),
        (LONG, published_name(LONG), WAITS),
        ("Toolkit.*", published_name(LONG), WAITS),
        ("Toolkit.y*", published_name(LONG), NONE),
        ("Toolkit.xx", published_name(LONG), NONE),
    ],
)
def test_a_tool_that_is_called_by_its_name_may_come(tools: str, name: str, expected: ErrorCode) -> None:
    assert code(unlisted((tools, {})), name, by_name=True) is expected


def test_a_name_whose_tools_are_all_denied_is_not_found() -> None:
    catalogue = unlisted(("A.*", {"deny": True}), ("*", {}))
    assert code(catalogue, "A_B", by_name=True) is NONE
    assert code(catalogue, "A_B_C", by_name=True) is WAITS  # that of A_B.C, too


@pytest.mark.anyio
async def test_what_is_known_of_other_backends_stays_as_it_is() -> None:
    good, dead = ToolServer("good", tool("A.X"), tool("A.Mail")), ToolServer("dead")
    dead.failure = DOWN
    routes = [route(good, "A.Mail", scopes=frozenset({"mail"})), route(good), route(dead)]
    async with running(source(good, routes), source(dead, routes)) as (catalogue, _):
        assert code(catalogue, "A.X") is None
        assert code(catalogue, "A.Mail") is FORBIDDEN
        assert code(catalogue, "A.X@2.0.0") is WAITS
        # A tool that is hidden looks like one that does not exist.
        assert code(catalogue, "A.Mail", hide=True) is code(catalogue, "B.Y", hide=True) is WAITS


@pytest.mark.anyio
async def test_a_catalogue_made_anew_waits_for_new_backends_only() -> None:
    server, added = ToolServer("crm", tool("A.X")), ToolServer("added")
    added.failure = DOWN
    async with running(one_backend(server)) as (catalogue, hours):
        routes = [route(server, "A.*"), route(added, "B.*")]
        successor = Catalogue([source(server, routes), source(added, routes)], sleep=hours.sleep)
        await successor.adopt(catalogue)
        assert [code(successor, name) for name in ("A.X", "A.Y", "B.X")] == [None, NONE, WAITS]
        without = Catalogue([one_backend(server)])
        await without.adopt(successor)
        assert code(without, "B.X") is NONE
