"""The client: lists tools, calls them, waits for those that take long, and repeats calls without running them twice."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NoReturn, Self
from urllib.parse import quote

from gateway.client.answers import (
    CALL_ID,
    LOCATION,
    ChallengeAnswer,
    Consent,
    GatewayReply,
    Missing,
    Outcome,
    Refusal,
    Tool,
    ToolList,
    read,
)
from gateway.client.errors import ConsentError, RefusedError, ToolFailedError, UnreachableError
from gateway.client.sending import Headers, Sender
from gateway.core import jsontext
from gateway.core.errors import ErrorCode, FailureCode
from gateway.core.model import Json, JsonObject

DEFAULT_URL = "http://127.0.0.1:8080"
PATIENCE_S = 600.0  # people look again after a while; a program that knows its tool says more
CONSENT_S = 600.0  # to find the page, log in and decide; providers forget sooner or later, too
POLL_S = 1.0  # between two looks at least
PAUSE_S, MAX_PAUSE_S = 0.5, 30.0  # before a call is repeated: twice as long each time
MAX_CONSENTS = 5  # one after the other for one call; a tool that asks on and on will not be satisfied

OnConsent = Callable[[Sequence[Consent]], Awaitable[None]]


class Follower:
    """Is told what happens while a call is waited for."""

    async def consents(self, asked: Sequence[Consent], *, is_begun: bool) -> bool:
        """The user has to consent; false if nobody can be asked. `is_begun`: the call goes on by itself then."""
        return False

    def sends(self) -> None:
        """The call is sent, for the first time or again."""

    def waits(self) -> None:
        """The call takes longer than the gateway waits for it."""


class _Asking(Follower):
    def __init__(self, on_consent: OnConsent) -> None:
        self._on_consent = on_consent

    async def consents(self, asked: Sequence[Consent], *, is_begun: bool) -> bool:
        await self._on_consent(asked)
        return True


class Toolgate:
    """A gateway, and who calls it. To be opened with `async with`, or closed with `aclose`.

    `url` is by default in TOOLGATE_URL, else http://127.0.0.1:8080; `token` is a bearer token, by default in
    TOOLGATE_TOKEN; `api_key` is sent in place of it. Raises ValueError for what cannot be one of these.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, api_key: str | None = None) -> None:
        self.url = (url or os.environ.get("TOOLGATE_URL") or DEFAULT_URL).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not the URL of a gateway: it must begin with http:// or https://.")
        if token is None and api_key is None:
            token = os.environ.get("TOOLGATE_TOKEN")
        self._headers: Headers = {"oxp-version": "1.0"}
        self.has_token = bool(token and token.strip())
        if token and self.has_token:
            self._headers["authorization"] = f"Bearer {_checked(token.strip(), 'bearer token')}"
        if api_key is not None:
            self._headers["oxp-api-key"] = _checked(api_key, "API key")
        self._sender = Sender(self.url)
        self._last_list: tuple[str, tuple[Tool, ...]] | None = None  # its ETag, and what was listed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._sender.aclose()

    # What programs use.

    async def tools(self) -> tuple[Tool, ...]:
        """Lists the tools that may be called. Raises RefusedError, UnreachableError.

        A list that has not changed is not sent again.
        """
        condition = {} if self._last_list is None else {"if-none-match": self._last_list[0]}
        reply = await self._sender.send("GET", f"{self.url}/oxp/tools", {**self._headers, **condition})
        if reply.status == 304 and self._last_list is not None:
            return self._last_list[1]
        tool_list = read(reply.body, ToolList) if reply.status == 200 else None
        if tool_list is None:
            self.refused(reply)
        if etag := reply.headers.get("etag"):
            self._last_list = etag, tool_list.items
        return tool_list.items

    async def call(
        self,
        tool: str | Tool,
        arguments: Mapping[str, Any] | None = None,
        *,
        user_id: str | None = None,
        tokens: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        call_id: str | None = None,
        patience_s: float = PATIENCE_S,
        attempts: int = 3,
        on_consent: OnConsent | None = None,
    ) -> Any:
        """Calls a tool and returns its value, however long it takes.

        `tokens` are by provider id, `secrets` by id. The call has one id for all its repetitions, so that it runs once
        whatever breaks: `call_id`, or a new one. It is sent `attempts` times at most where the gateway says that it may
        be repeated, within `patience_s`. `on_consent` shows the user where to grant access, which is then waited for.
        Raises ToolFailedError, RefusedError, UnreachableError, ConsentError.
        """
        request = request_of(
            tool.id if isinstance(tool, Tool) else tool,
            arguments or {},
            call_id or str(uuid.uuid4()),
            user_id=user_id,
            tokens=tokens or {},
            secrets=secrets or {},
        )
        follower = Follower() if on_consent is None else _Asking(on_consent)
        reply = await self.last_reply(request, follower, patience_s=patience_s, attempts=attempts)
        outcome = read(reply.body, Outcome) if reply.status in (200, 202) else None
        if outcome is None:
            self.refused(reply)
        if not outcome.success:
            raise ToolFailedError(outcome.error, reply)
        return outcome.value

    # What they are made of.

    async def ask(self, method: str, path: str, body: Json = None) -> GatewayReply:
        """Sends one request with our credential. Raises UnreachableError."""
        if body is None:
            return await self._sender.send(method, self.url + path, self._headers)
        headers = {**self._headers, "content-type": "application/json"}
        return await self._sender.send(method, self.url + path, headers, jsontext.encode(body))

    def refused(self, reply: GatewayReply) -> NoReturn:
        """Raises RefusedError, or UnreachableError for an answer that is none of a gateway's."""
        refusal = read(reply.body, Refusal)
        for_now = reply.status == 503 and reply.retry_after_s is not None
        if refusal is None or not (for_now or 400 <= reply.status < 500):
            raise UnreachableError(
                f"What answers at {self.url} is not a gateway, or not a healthy one (status {reply.status})."
            )
        raise RefusedError(refusal, reply)

    async def last_reply(
        self, request: JsonObject, follower: Follower, *, patience_s: float, attempts: int = 1
    ) -> GatewayReply:
        """Sends a call (`request_of`) until it is over, or may not be repeated, or the time is up.

        Returns the answer that any repetition gets, or the last one. Raises UnreachableError, ConsentError, and
        RefusedError if the call cannot be asked for any more.
        """
        give_up_at, pause_s = monotonic() + patience_s, PAUSE_S
        consents = attempt = 0
        while True:
            try:
                reply = await self._until_over(request, follower, give_up_at)
            except UnreachableError:
                attempt += 1
                if attempt >= attempts or monotonic() + pause_s > give_up_at:
                    raise
                after_s: float = 0.0  # the repeated call joins what runs
            else:
                asked = _consents_of(reply)
                is_begun = LOCATION in reply.headers
                if asked and consents < MAX_CONSENTS and await follower.consents(asked, is_begun=is_begun):
                    await self._until_consented(asked, monotonic() + CONSENT_S)
                    consents += 1
                    give_up_at = monotonic() + patience_s
                    continue
                attempt += reply.code != FailureCode.STILL_RUNNING  # which the repeated call joins
                again_s = _again_after_s(reply)
                if again_s is None or attempt >= attempts or monotonic() + again_s > give_up_at:
                    return reply
                after_s = again_s
            await asyncio.sleep(max(after_s, pause_s))
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _until_over(self, request: JsonObject, follower: Follower, give_up_at: float) -> GatewayReply:
        """Sends a call once, and asks for its result until it has one, or the time is up."""
        follower.sends()
        reply = await self.ask("POST", "/oxp/tools/call", request)
        if not reply.goes_on:
            return reply
        follower.waits()
        # By its id rather than at `Location`: our credential goes nowhere but to the gateway that was named.
        path = f"/calls/{quote(reply.headers[CALL_ID], safe='')}"
        pause_s = _pause_s(reply)
        while (left_s := give_up_at - monotonic()) > 0:
            await asyncio.sleep(min(pause_s, left_s))
            reply_later = await self.ask("GET", path)
            if reply_later.goes_on:
                reply, pause_s = reply_later, _pause_s(reply_later)
            elif reply_later.status == 200 or (reply_later.status == 400 and LOCATION in reply_later.headers):
                return reply_later
            elif reply_later.status in (400, 429) and reply_later.retry_after_s is not None:
                pause_s = max(reply_later.retry_after_s, POLL_S)
            else:
                self.refused(reply_later)
        return reply

    async def _until_consented(self, asked: Sequence[Consent], give_up_at: float) -> None:
        """Waits until all of these are given. Raises ConsentError when one is not."""
        for consent in asked:
            assert consent.check_url is not None
            while monotonic() < give_up_at:
                # It need not be the gateway's: without our credential.
                reply = await self._sender.send("GET", consent.check_url, {})
                answer = read(reply.body, ChallengeAnswer)
                status = answer.status if answer else None
                if status == "completed":
                    break
                if status != "pending" and reply.status != 429:  # which is for many who look
                    raise ConsentError("The consent was declined, or it took too long.")
                await asyncio.sleep(POLL_S)
            else:
                raise ConsentError(f"Nobody consented within {CONSENT_S:.0f} s.")


def request_of(
    tool_id: str,
    arguments: Mapping[str, Json],
    call_id: str,
    *,
    user_id: str | None = None,
    tokens: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> JsonObject:
    """A CallToolRequest."""
    context: JsonObject = {}
    if tokens:
        context["authorization"] = [{"id": id_, "token": token} for id_, token in tokens.items()]
    if secrets:
        context["secrets"] = [{"id": id_, "value": value} for id_, value in secrets.items()]
    if user_id is not None:
        context["user_id"] = user_id
    request: JsonObject = {"call_id": call_id, "tool_id": tool_id, "input": dict(arguments)}
    return request | ({"context": context} if context else {})


def _checked(credential: str, what: str) -> str:
    if not (credential.isascii() and credential.isprintable()) or " " in credential:
        raise ValueError(f"This is not a {what}: it has spaces or other odd characters.")
    return credential


def _consents_of(reply: GatewayReply) -> Sequence[Consent]:
    """What a user has to consent to, if that is all that a call lacks and can be waited for."""
    needs = reply.code == ErrorCode.MISSING_REQUIREMENTS
    refusal = read(reply.body, Refusal) if needs else None
    missing = refusal.missing_requirements if refusal else Missing()
    watched = all(consent.check_url is not None for consent in missing.authorization)
    # With something else missing too, the repeated call would only be refused again.
    return missing.authorization if watched and not missing.secrets and not missing.user_id else ()


def _again_after_s(reply: GatewayReply) -> float | None:
    """After how many seconds a call that is over may be sent again; None: it may not."""
    if reply.status in (200, 202):
        outcome = read(reply.body, Outcome)
        if outcome is None or outcome.success or not outcome.error.can_retry:
            return None
        return None if reply.goes_on else (outcome.error.retry_after_ms or 0) / 1000
    return reply.retry_after_s


def _pause_s(reply: GatewayReply) -> float:
    """How long the gateway suggests to wait."""
    outcome = read(reply.body, Outcome)
    after_ms = None if outcome is None else outcome.error.retry_after_ms
    return POLL_S if after_ms is None else max(after_ms / 1000, POLL_S)
