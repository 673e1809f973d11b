"""The receiver of callbacks takes what is posted to an address of its own, and no more than it can hold."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests import plainhttp
from toolgate_conformance import callbacks
from toolgate_conformance.callbacks import MAX_BODY_BYTES, MAX_CALLBACKS, Address, Receiver, receiving, statuses

pytestmark = pytest.mark.anyio


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as running:
        yield running


async def test_a_callback_is_kept_as_it_came_and_answered_as_asked(receiver: Receiver) -> None:
    inbox = receiver.open_inbox(statuses(503))
    async with plainhttp.async_client() as http:
        headers = {"Authorization": "Bearer secret"}
        answers = [await http.post(inbox.url, json={"type": "tool_result"}, headers=headers) for _ in range(2)]
    assert [each.status_code for each in answers] == [503, 200]
    first = inbox.callbacks[0]
    assert (first.kind, first.document) == ("tool_result", {"type": "tool_result"})
    assert inbox.url.endswith(first.target)
    assert "secret" not in first.written


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"type": []}', b"[" * 100_000])
async def test_what_is_no_message_has_no_type(receiver: Receiver, body: bytes) -> None:
    inbox = receiver.open_inbox()
    async with plainhttp.async_client() as http:
        await http.post(inbox.url, content=body)
    assert [each.kind for each in inbox.callbacks] == [""]


async def test_other_addresses_and_methods_are_refused(receiver: Receiver) -> None:
    inbox = receiver.open_inbox()
    async with plainhttp.async_client() as http:
        assert (await http.put(inbox.url, content=b"{}")).status_code == httpx.codes.METHOD_NOT_ALLOWED
        path = inbox.url.partition("?")[0]
        assert (await http.post(f"{path}-other", content=b"{}")).status_code == httpx.codes.NOT_FOUND
    assert inbox.callbacks == []


async def test_what_is_too_large_is_refused(receiver: Receiver) -> None:
    inbox = receiver.open_inbox()
    async with plainhttp.async_client() as http:
        answer = await http.post(inbox.url, content=bytes(MAX_BODY_BYTES + 1))
    assert answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
    assert inbox.callbacks == []


async def test_what_is_too_much_is_refused(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, small = receiver.open_inbox(), receiver.open_inbox()
    async with plainhttp.async_client() as http:
        answered = [(await http.post(inbox.url, content=b"{}")).status_code for _ in range(MAX_CALLBACKS + 1)]
        monkeypatch.setattr(callbacks, "MAX_BYTES", 3)
        limited = [(await http.post(small.url, content=b"{}")).status_code for _ in range(2)]
    assert answered == [200] * MAX_CALLBACKS + [429]
    assert limited == [200, 429]
    assert (len(inbox.callbacks), len(small.callbacks)) == (MAX_CALLBACKS, 1)


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
async def test_callbacks_are_received_at_the_address_that_is_given(host: str) -> None:
    async with receiving(Address(host)) as receiver, plainhttp.async_client() as http:
        inbox = receiver.open_inbox()
        assert host in inbox.url
        assert (await http.post(inbox.url, json={})).status_code == 200


async def test_tool_servers_are_told_the_url_that_is_given() -> None:
    async with receiving(Address(url="https://kit.example/tools/")) as receiver:
        assert receiver.open_inbox().url.startswith("https://kit.example/tools/callback/")
