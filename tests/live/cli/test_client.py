"""The client of the package against running gateways, and against servers that break off."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.client import Consent, ConsentError, RefusedError, ToolFailedError, Toolgate, UnreachableError
from tests.streams import Request, accepting, http_reply, read_request
from tests.support.demonstration import Demo
from tests.support.terminal import DEADLINE_S

pytestmark = pytest.mark.anyio


def client_of(demo: Demo) -> Toolgate:
    return Toolgate(demo.env["TOOLGATE_URL"], demo.env["TOOLGATE_TOKEN"])


async def post(url: str) -> None:
    """Decides on a page of the demonstration's consent, which answers 404 once it is declined."""

    def send() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=DEADLINE_S).close()
        except urllib.error.HTTPError as exc:
            exc.close()

    await asyncio.to_thread(send)


async def test_it_lists_and_calls(demo: Demo) -> None:
    async with client_of(demo) as gateway:
        tools = await gateway.tools()
        assert await gateway.tools() is tools  # by a 304
        (add,) = (tool for tool in tools if tool.id == "Calculator.Add@1.1.0")
        assert await gateway.call(add, {"a": 2, "b": 40}) == 42
        assert await gateway.call("Notes.List", user_id="u-client") == []


async def test_what_has_no_value_is_an_error_that_says_what_to_do(demo: Demo) -> None:
    async with client_of(demo) as gateway:
        with pytest.raises(RefusedError) as wrong:
            await gateway.call("Calculator.Add", {"a": "x"})
        assert (wrong.value.code, set(wrong.value.refusal.parameter_errors)) == ("invalid_arguments", {"a", "b"})
        with pytest.raises(ToolFailedError, match=r"^Doorbell ID not found$") as failed:
            await gateway.call("Doorbell.Ring", {"doorbell_id": "none"}, attempts=1)
        assert failed.value.failure.additional_prompt_content == "ids: doorbell42,doorbell84"
        with pytest.raises(RefusedError) as missing:
            await gateway.call("Sms.Send", {"to": "+4712345678", "text": "hello"})
        assert [secret.id for secret in missing.value.refusal.missing_requirements.secrets] == ["SMS_API_KEY"]
        sent = await gateway.call("Sms.Send", {"to": "+4712345678", "text": "hello"}, secrets={"SMS_API_KEY": "any"})
        assert sent["status"] == "queued"


async def test_a_consent_is_shown_and_waited_for(demo: Demo) -> None:
    async def accept(consents: Sequence[Consent]) -> None:
        await post(consents[0].url)

    async def decline(consents: Sequence[Consent]) -> None:
        await post(f"{consents[0].url}/decline")

    async with client_of(demo) as gateway:
        found = await gateway.call("Mail.Search", {"query": "lunch"}, user_id="c1", on_consent=accept)
        assert found[0]["subject"] == "Lunch on Friday?"
        with pytest.raises(ConsentError):
            await gateway.call("Mail.Search", {"query": "lunch"}, user_id="c2", on_consent=decline)


async def test_a_call_that_is_repeated_has_one_id() -> None:
    """The first connection breaks off, the second answer is for later, the third is the result."""
    calls: list[dict[str, Any]] = []
    answers = [b"", http_reply(429, {"message": "Later."}, toolgate_code="rate_limited", retry_after="0")]

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request: Request = await read_request(reader)
            calls.append(json.loads(request.body))
            if len(calls) > len(answers):
                writer.write(http_reply(200, {"call_id": "c", "success": True, "value": 7}))
            elif answer := answers[len(calls) - 1]:
                writer.write(answer)
            else:
                writer.close()
                return

    async with accepting(converse) as port, Toolgate(f"http://127.0.0.1:{port}") as gateway:
        assert await gateway.call("A.B", {"n": 1}) == 7
        assert len({call["call_id"] for call in calls}) == 1
        assert len(calls) == 3
        calls.clear()
        with pytest.raises(UnreachableError) as broken:
            await gateway.call("A.B", attempts=1)
        assert broken.value.may_have_run


@pytest.mark.parametrize(("url", "token"), [("ftp://x", "t"), ("http://127.0.0.1:1", "two words")])
def test_what_cannot_be_a_url_or_a_token_is_a_value_error(url: str, token: str) -> None:
    with pytest.raises(ValueError, match=r"is not "):
        Toolgate(url, token)
