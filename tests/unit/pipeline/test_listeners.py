"""Listeners: who is told of which change, how many there may be, and what is owed to one that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.catalogue.routing import Router, tool_changes
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.ports import ANONYMOUS, Caller
from gateway.core.surfaces import OpenedListen
from gateway.core.wire import Headers
from gateway.pipeline.listeners import ChangeListener, Listeners
from tests.unit.published import published

pytestmark = pytest.mark.anyio

DEADLINE_S = 20.0
IP = "192.0.2.1"


class Words:
    """A `encoders.ListenEncoder` of plain words."""

    name = "words"
    wire_version = "1"
    headers: Headers = ()

    def __init__(self, *, hears: bool = True) -> None:
        self._hears = hears

    def begun(self) -> bytes:
        return b"begun"

    def changed(self) -> bytes:
        return b"changed" if self._hears else b""

    def beat(self) -> bytes:
        return b"beat"

    def ended(self) -> bytes:
        return b"ended"

    def encode_result(self, *_: object) -> None:
        raise AssertionError

    encode_accepted = encode_error = encode_result


class Site:
    """Listeners of a catalogue that a test sets."""

    def __init__(self, beat_s: float = 1000.0) -> None:
        self.router = Router()
        self.listeners = Listeners(lambda: self.router, beat_s=beat_s)
        self.listeners.limit(4, 2)

    def publish(self, *tools: str, scopes: str = "") -> None:
        self.router = Router([published(tool, scopes=scopes) for tool in tools])
        self.listeners.look()

    def open(
        self,
        scopes: str = "",
        *,
        principal: str = "key:a",
        ip: str = IP,
        hears: bool = True,
        toolkit: str | None = None,
    ) -> ChangeListener:
        caller = Caller(principal=principal, scopes=frozenset(scopes.split()))
        return self.listeners.open(caller, ip, OpenedListen(Words(hears=hears), toolkit))  # type: ignore[arg-type]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.listeners.aclose()


async def heard(listener: ChangeListener) -> bytes | None:
    async with asyncio.timeout(DEADLINE_S):
        return await listener.next()


def refusal(site: Site, principal: str = "key:a", ip: str = IP) -> ErrorCode:
    with pytest.raises(GatewayError) as caught:
        site.open(principal=principal, ip=ip)
    return caught.value.code


async def test_mcp_24_only_those_are_told_whose_tools_have_changed(site: Site) -> None:
    admin, guest, deaf = site.open("admin"), site.open(principal="key:b"), site.open(principal="key:b", hears=False)
    assert {await heard(admin), await heard(guest), await heard(deaf)} == {b"begun"}
    site.publish("A.B@1.0.0", scopes="admin")
    assert await heard(admin) == b"changed"
    site.listeners.close()
    assert [await heard(guest), await heard(guest)] == [b"ended", None]
    assert [await heard(deaf), await heard(deaf)] == [b"ended", None]


async def test_who_listens_to_one_toolkit_hears_of_that_alone(site: Site) -> None:
    mine, other, every = site.open(toolkit="A"), site.open(principal="key:b", toolkit="B"), site.open()
    assert {await heard(mine), await heard(other), await heard(every)} == {b"begun"}
    site.publish("A.B@1.0.0")
    assert [await heard(mine), await heard(every)] == [b"changed", b"changed"]
    site.listeners.close()
    assert await heard(other) == b"ended"


async def test_changes_in_a_row_are_told_once_to_a_caller_who_does_not_read(site: Site) -> None:
    listener, other = site.open(), site.open()
    assert {await heard(listener), await heard(other)} == {b"begun"}
    for tool in ("A.B@1.0.0", "A.C@1.0.0", "A.D@1.0.0"):
        site.publish(tool)
        assert await heard(other) == b"changed"
    site.listeners.close()
    assert [await heard(listener), await heard(listener), await heard(listener)] == [b"changed", b"ended", None]


async def test_mcp_25_each_caller_has_its_share_and_all_have_a_limit(site: Site) -> None:
    mine = [site.open(), site.open()]
    assert refusal(site) is ErrorCode.RATE_LIMITED
    theirs = [site.open(principal=ANONYMOUS.principal), site.open(principal=ANONYMOUS.principal)]
    assert refusal(site, ANONYMOUS.principal) is ErrorCode.RATE_LIMITED  # anonymous callers count by address
    assert refusal(site, ANONYMOUS.principal, "192.0.2.2") is ErrorCode.RATE_LIMITED  # all places are taken
    mine[0].close()
    mine[0].close()  # gives back one place only
    site.open(principal=ANONYMOUS.principal, ip="192.0.2.2")
    assert refusal(site) is ErrorCode.RATE_LIMITED
    assert len(site.listeners) == len(theirs) + 2


async def test_a_limit_of_none_ends_all_and_closed_listeners_take_nobody(site: Site) -> None:
    listener = site.open()
    site.listeners.limit(0, 2)
    assert [await heard(listener), await heard(listener), await heard(listener)] == [b"begun", b"ended", None]
    assert refusal(site) is ErrorCode.RATE_LIMITED
    site.listeners.limit(4, 2)
    site.listeners.close()
    assert refusal(site) is ErrorCode.NOT_READY


async def test_one_timer_gives_signs_of_life_to_all() -> None:
    site = Site(beat_s=0.001)
    both = [site.open(), site.open()]
    for listener in both:
        assert [await heard(listener) for _ in range(3)] == [b"begun", b"beat", b"beat"]
    await site.listeners.aclose()


@pytest.mark.parametrize(
    ("before", "after", "seen_by"),
    [
        ("", "", set()),
        ("", "x", {"", "y"}),
        ("x", "y", {"x", "y"}),
        (None, "x", {"x", "x y"}),
        ("x", None, {"x", "x y"}),
        (None, "", {"", "x", "y", "x y"}),
    ],
)
def test_a_change_of_scopes_is_seen_by_those_who_gain_or_lose_the_tool(
    before: str | None, after: str | None, seen_by: set[str]
) -> None:
    routers = [Router([] if it is None else [published("A.B@1.0.0", scopes=it)]) for it in (before, after)]
    changes = tool_changes(*routers)
    told = {
        who for who in ("", "x", "y", "x y") if any(change.concerns(frozenset(who.split()), None) for change in changes)
    }
    assert told == seen_by


def test_another_definition_is_seen_by_all_who_may_use_the_tool() -> None:
    changes = tool_changes(
        Router([published("A.B@1.0.0", description="one", scopes="x")]),
        Router([published("A.B@1.0.0", description="two", scopes="x")]),
    )
    assert [any(change.concerns(frozenset(who), None) for change in changes) for who in ((), ("x",))] == [False, True]
