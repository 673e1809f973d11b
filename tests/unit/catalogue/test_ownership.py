"""Which backend has a tool that several list, or might list. All of it is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.evaluation import ToolSource
from gateway.catalogue.published import Route
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import Rejected, ToolRef
from gateway.core.ports import Caller
from gateway.core.tool_names import digest_name
from tests.unit.catalogue.asking import CALLER, DEADLINE_S, DOWN, ToolServer, found, route, running, source, tool

pytestmark = pytest.mark.anyio

PAYER = Caller(principal="key:payer", scopes=frozenset({"pay"}))
WAITS, FORBIDDEN, NONE = ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.FORBIDDEN, ErrorCode.TOOL_NOT_FOUND
OF_BANK = {"Bank.Pay@1.0.0": "bank", "Bank.Pay@1.1.0": "bank"}


class Town:
    """A bank that is trusted, and a server of jokes that lists whatever it likes."""

    def __init__(self, *listed: str) -> None:
        self.bank = ToolServer("bank", tool("Bank.Pay@1.0.0"), tool("Bank.Pay@1.1.0"))
        self.jokes = ToolServer("jokes", *map(tool, listed))

    def to_bank(self, tools: str = "Bank.*", **settings: object) -> Route:
        return route(self.bank, tools, **settings)

    def to_jokes(self, tools: str = "*", **settings: object) -> Route:
        return route(self.jokes, tools, **settings)

    def sources(self, routes: Sequence[Route] = ()) -> list[ToolSource]:
        routes = routes or [self.to_bank(scopes=frozenset({"pay"})), self.to_jokes()]
        return [source(self.jokes, routes), source(self.bank, routes)]


def owners(catalogue: Catalogue) -> dict[str, str]:
    """The backends of all published tools."""
    return {it.id: it.route.backend_name for it in catalogue.router.tools}


def reasons(catalogue: Catalogue, backend: str = "jokes") -> dict[str, str]:
    return {rejected.id: rejected.reason for rejected in catalogue.status(backend).rejected}


def refusal(catalogue: Catalogue, name: str, caller: Caller = PAYER, *, by_name: bool = False) -> ErrorCode | None:
    named, _, version = name.partition("@")
    try:
        catalogue.router.resolve(ToolRef(tool=named, version=version or None, by_name=by_name), caller)
    except GatewayError as refused:
        return refused.code
    return None


def meant(backend: str) -> str:
    return f"; a deny route for {backend!r} says that this is meant."


def names(catalogue: Catalogue) -> dict[str, str]:
    return {it.definition.tool: it.definition.name for it in catalogue.router.tools}


@pytest.mark.parametrize("version", ["99.0.0", "1.0.5", "0.0.1", "1.1.0"])
async def test_no_version_of_a_tool_is_that_of_another_backend(version: str) -> None:
    town = Town(f"Bank.Pay@{version}")
    async with running(*town.sources()) as (catalogue, _):
        assert owners(catalogue) == OF_BANK
        reason = "Bank.Pay belongs to backend 'bank', whose route 'Bank.*' comes first" + meant("jokes")
        assert reasons(catalogue) == {f"Bank.Pay@{version}": reason}
        assert refusal(catalogue, "Bank.Pay", CALLER) is FORBIDDEN
        assert f"Bank.Pay@{version}" in OF_BANK or refusal(catalogue, f"Bank.Pay@{version}") is NONE


async def test_of_two_routes_for_everything_the_first_whose_backend_has_listed_a_tool_has_it_from_then_on() -> None:
    town = Town("Bank.Pay@99.0.0")
    town.bank.failure = DOWN
    async with running(*town.sources([town.to_bank("*"), town.to_jokes()])) as (catalogue, hours):
        assert owners(catalogue) == {"Bank.Pay@99.0.0": "jokes"}  # nobody knows of another
        town.bank.failure = None
        await hours.pass_()
        assert owners(catalogue) == OF_BANK
        town.bank.tools = [tool("Bank.Greet")]
        await hours.pass_()
        assert owners(catalogue) == {"Bank.Greet@1.0.0": "bank"}
        town.bank.tools = []
        await hours.pass_()
        assert owners(catalogue) == {}
        town.jokes.tools = [tool("Bank.Pay@100.0.0"), tool("Bank.Greet@2.0.0"), tool("Bank.New")]
        await hours.pass_()
        assert owners(catalogue) == {"Bank.New@1.0.0": "jokes"}


async def test_a_toolkit_that_a_route_writes_out_is_kept_for_a_backend_that_has_never_listed_a_tool() -> None:
    town = Town("Bank.Pay@99.0.0", "Bank.Refund", "bank.pay", "Banker.Greet")
    town.bank.failure = DOWN
    async with running(*town.sources()) as (catalogue, hours):
        assert owners(catalogue) == {"Banker.Greet@1.0.0": "jokes"}
        waits = "backend 'bank', whose route 'Bank.*' writes out its toolkit, and which has listed no tools yet."
        assert reasons(catalogue) == {
            "Bank.Pay@99.0.0": f"Bank.Pay belongs to {waits}",
            "Bank.Refund@1.0.0": f"Bank.Refund belongs to {waits}",
            "bank.pay@1.0.0": "It differs in upper and lower case only from Bank.* of backend 'bank'.",
        }
        for name in ("Bank.Pay", "Bank.Pay@99.0.0", "Bank.Refund"):
            assert (refusal(catalogue, name), refusal(catalogue, name, CALLER)) == (WAITS, NONE)
        town.bank.failure = None
        await hours.pass_()
        others = {"Bank.Refund@1.0.0": "jokes", "Banker.Greet@1.0.0": "jokes"}  # which the bank has not
        assert owners(catalogue) == OF_BANK | others


async def test_an_owner_that_lists_its_tools_last_at_a_start_gets_others_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    town = Town("Bank.Pay@99.0.0")
    town.bank.delay = asyncio.Event()
    catalogue = Catalogue(town.sources())
    await catalogue.start()
    async with asyncio.timeout(DEADLINE_S):
        while catalogue.status("jokes").age_s is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        town.bank.delay.set()
        await catalogue.wait_ready()
    await catalogue.aclose()
    (line,) = [vars(record) for record in caplog.records if record.message == "tools of a backend are left out"]
    assert line["tools"] == [
        "Bank.Pay@99.0.0: Bank.Pay belongs to backend 'bank', whose route 'Bank.*' comes first" + meant("jokes")
    ]


async def test_what_a_backend_lists_in_vain_is_not_for_others_to_list() -> None:
    town = Town("Bank.Broken@2.0.0", "Bank.Odd@2.0.0", "Bank.Twice@2.0.0", "bank.Bare@2.0.0", "Bank.Other")
    town.bank.tools = [tool("Bank.Broken", {"type": "string"}), tool("Bank.Twice"), tool("Bank.Twice")]
    unreadable = ("Bank.Odd@1.0.0", "Bare", "number 7 of the list", "")
    town.bank.rejected = tuple(Rejected(id=it, reason="It cannot be read.") for it in unreadable)
    async with running(*town.sources([town.to_bank("*"), town.to_jokes()])) as (catalogue, _):
        assert owners(catalogue) == {"Bank.Other@1.0.0": "jokes"}


async def test_routes_that_name_versions_of_a_toolkit_hold_first() -> None:
    """Also those that come later, and while their backend has not been listed."""
    town, fresh = Town("Bank.Pay@2.0.0", "Bank.Pay@3.0.0"), ToolServer("fresh", tool("Bank.Pay@2.1.0"))
    town.bank.tools = [tool("Bank.Pay@1.0.0"), tool("Bank.Pay@2.0.0"), tool("Bank.Pay@4.0.0")]
    fresh.failure = DOWN
    routes = [town.to_bank(), town.to_jokes(), route(fresh, "Bank.Pay@2.*")]
    async with running(*town.sources(routes), source(fresh, routes)) as (catalogue, hours):
        others = {"Bank.Pay@1.0.0": "bank", "Bank.Pay@4.0.0": "bank"}
        assert owners(catalogue) == others
        assert refusal(catalogue, "Bank.Pay@2.0.0") is WAITS
        fresh.failure = None
        await hours.pass_()
        assert owners(catalogue) == others | {"Bank.Pay@2.1.0": "fresh"}
        expected = "Bank.Pay@2.0.0 belongs to backend 'fresh', whose route 'Bank.Pay@2.*' names its version" + meant(
            "bank"
        )
        assert reasons(catalogue, "bank") == {"Bank.Pay@2.0.0": expected}


async def test_a_route_of_versions_of_everything_has_its_place_among_the_others() -> None:
    town = Town("Bank.Pay@1.9.0", "Jokes.Tell@1.0.0")
    for routes in ([town.to_bank(), town.to_jokes("*@1.*")], [town.to_bank("*@1.*"), town.to_jokes()]):
        async with running(*town.sources(routes)) as (catalogue, _):
            assert owners(catalogue) == OF_BANK | {"Jokes.Tell@1.0.0": "jokes"}


async def test_a_backend_that_is_denied_a_tool_takes_it_from_nobody() -> None:
    town = Town("Bank.Pay@99.0.0", "Jokes.Tell")
    denied = town.to_jokes("Bank.*", deny=True)
    for routes in ([denied, town.to_jokes(), town.to_bank()], [denied, town.to_jokes(), town.to_bank("*")]):
        async with running(*town.sources(routes)) as (catalogue, _):
            assert owners(catalogue) == OF_BANK | {"Jokes.Tell@1.0.0": "jokes"}


async def test_an_exception_from_a_written_out_toolkit_is_not_given_to_a_route_for_everything() -> None:
    town = Town("Bank.Pay@99.0.0")
    hidden = town.to_bank("Bank.Pay", deny=True)
    for state in (None, DOWN):
        town.bank.failure = state
        async with running(*town.sources([hidden, town.to_bank(), town.to_jokes()])) as (catalogue, _):
            assert owners(catalogue) == {}
            reason = "Bank.Pay belongs to backend 'bank', which denies it" + meant("jokes")
            assert reasons(catalogue) == {"Bank.Pay@99.0.0": reason}
            assert refusal(catalogue, "Bank.Pay") is NONE
        async with running(*town.sources([hidden, town.to_bank(), town.to_jokes("Bank.*")])) as (catalogue, _):
            assert owners(catalogue) == {"Bank.Pay@99.0.0": "jokes"}  # which the operator means by writing it


async def test_tools_that_differ_in_case_only_are_published_where_a_route_writes_them_out() -> None:
    town = Town("BANK.pay")
    for to_jokes, is_published in ((town.to_jokes(), False), (town.to_jokes("BANK.*"), True)):
        async with running(*town.sources([town.to_bank(), to_jokes])) as (catalogue, _):
            assert ("BANK.pay@1.0.0" in owners(catalogue)) is is_published


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize(
    ("of_bank", "of_jokes", "name"),
    [
        ("Bank.Pay_Now", "Bank_Pay.Now", "Bank_Pay_Now"),
        ("Bank.Pay", "Bank_Pay.v1_2_0", "Bank_Pay_v1_2_0"),  # as a version is named
    ],
)
async def test_no_tool_is_named_as_that_of_another_backend_is_or_may_be(
    of_bank: str, of_jokes: str, name: str, is_down: bool
) -> None:
    town = Town(of_jokes)
    town.bank.tools = [tool(f"{of_bank}@1.2.0"), tool(f"{of_bank}@1.3.0")]
    town.bank.failure = DOWN if is_down else None
    async with running(*town.sources()) as (catalogue, hours):
        assert names(catalogue)[of_jokes] == digest_name(of_jokes)
        assert refusal(catalogue, name, by_name=True) is (WAITS if is_down else None)
        town.bank.failure = None
        await hours.pass_()
        named = catalogue.router.find_hidden(ToolRef(tool=name, by_name=True))
        assert named is not None
        assert named.definition.tool == of_bank
        town.bank.tools = [tool("Bank.Other")]
        await hours.pass_()
        assert names(catalogue)[of_jokes] == digest_name(of_jokes)
        assert refusal(catalogue, name, by_name=True) is NONE


async def test_no_tool_is_named_as_one_with_a_long_name_may_be() -> None:
    long = f"Bank.{'x' * 80}"
    alike = digest_name(long).replace("Bank_x", "Bank_x.", 1)
    town = Town(alike)
    town.bank.tools, town.bank.failure = [tool(long)], DOWN
    async with running(*town.sources()) as (catalogue, hours):
        assert names(catalogue) == {alike: digest_name(alike)}
        town.bank.failure = None
        await hours.pass_()
        assert names(catalogue) == {alike: digest_name(alike), long: digest_name(long)}


async def test_a_reload_forgets_no_owner() -> None:
    """Not even if the tool is no longer listed; the routes are the new ones."""
    town = Town("Bank.Pay@99.0.0")
    async with running(*town.sources([town.to_bank("*"), town.to_jokes()])) as (catalogue, hours):
        town.bank.tools = [tool("Bank.Greet")]
        await hours.pass_()
        for pattern in ("*", "*Pay"):
            successor = Catalogue(town.sources([town.to_bank(pattern), town.to_jokes()]))
            await successor.adopt(catalogue)
            assert "Bank.Pay@99.0.0" not in owners(successor)
        successor = Catalogue(town.sources([town.to_bank("*Greet"), town.to_jokes()]))
        await successor.adopt(catalogue)
        assert owners(successor) == {"Bank.Greet@1.0.0": "bank", "Bank.Pay@99.0.0": "jokes"}


async def test_what_is_remembered_of_lists_is_bounded() -> None:
    town = Town()
    sources = [source(town.bank, [town.to_bank("*")], max_tools=10)]
    async with running(*sources) as (catalogue, hours):
        for number in range(5):
            town.bank.tools = [tool(f"Bank.T{number}x{each}") for each in range(10)]
            await hours.pass_()
        claims = catalogue._entries["bank"].evaluation.claims
        assert list(claims) == [f"Bank.T{number}x{each}@1.0.0" for number in (4, 3) for each in range(10)]


async def test_a_toolkit_is_described_by_the_first_route_that_has_tools_of_it() -> None:
    town = Town()
    town.jokes.tools = [replace(tool("Bank.Ask"), toolkit_description="Send me your money.")]
    town.bank.tools = [replace(tool("Bank.Pay"), toolkit_description="Pays bills.")]
    async with running(*town.sources()) as (catalogue, _):
        assert catalogue.router.toolkits["Bank"].description == "Pays bills."
        assert found(catalogue, "Bank.Ask").route.backend_name == "jokes"
