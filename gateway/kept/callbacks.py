"""What tool servers bring later: `POST /callbacks/{token}` (RAP, Transport: callback URL).

The token names a call, and proves that we made it before anything is read or looked up. The tool server that holds it
may end that one call and nothing else.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from gateway.errors import GatewayError
from gateway.kept.backlog import Backlog
from gateway.kept.standing import PREFIX, note_of
from gateway.ports import Backend
from gateway.request import Request
from gateway.routing import Decode, PublishedTool
from gateway.state.port import CallState, Record, State, StateUnavailable
from gateway.state.sealing import Digester
from gateway.wire import Body

log = logging.getLogger("gateway.callbacks")

PATH = "/callbacks/"
RANDOM_BYTES = 16
MAC_CHARACTERS = 22  # 128 bits and more of an HMAC-SHA256


class CallbackTokens:
    """Makes the last segment of callback URLs: `<key>.<random>.<MAC>`. All keys open, the first one makes."""

    def __init__(self, digester: Digester) -> None:
        self._digester = digester

    def mint(self, key: str) -> str:
        """A token for the outcome of the call with that key."""
        nonce = secrets.token_urlsafe(RANDOM_BYTES)
        return f"{key}.{nonce}.{self._digester.digest('callback', key, nonce)[:MAC_CHARACTERS]}"

    def key_of(self, token: str) -> str | None:
        """The key of the call; None for a token that is not ours."""
        key, _, rest = token.partition(".")
        nonce, _, mac = rest.partition(".")
        macs = self._digester.digests("callback", key, nonce)
        known = [hmac.compare_digest(mac.encode(), good[:MAC_CHARACTERS].encode()) for good in macs]
        return key if any(known) else None


class Receiver(Protocol):
    """A backend whose tool server calls back."""

    async def receive(
        self,
        call_id: str,
        group: str,
        body: bytes,
        content_type: str | None,
        *,
        ended: bool,
        decode: Decode,
        failure_patterns: Sequence[re.Pattern[str]],
    ) -> int: ...


class Callbacks:
    """Answers callbacks, on whatever replica they arrive. `published` finds a tool by its full id."""

    def __init__(
        self,
        state: State,
        tokens: CallbackTokens,
        *,
        backends: Mapping[str, Backend],
        published: Callable[[str], PublishedTool | None],
    ) -> None:
        self._state = state
        self._tokens = tokens
        self._backends = backends
        self._published = published
        self._backlog = Backlog(lambda: state.is_up)

    async def answer(self, request: Request, token: str, content_type: str | None, arriving: Body) -> int:
        """The status to answer with. Never 5xx for a passing trouble of ours, unless there is no room to wait it out.

        A tool server that is refused does not come again, so what cannot be looked up now is held and looked up later,
        and a body that is too large ends its call like any other that cannot be read. Raises PAYLOAD_TOO_LARGE.
        """
        key = self._tokens.key_of(token)
        if key is None:
            return 404
        try:
            body, refusal = await arriving.read(), None
        except GatewayError as too_large:  # nor will that result be sent again, so nobody shall wait for it
            body, refusal = b"", too_large
        request.bytes_in = len(body)
        status = await self._take(request, key, body, content_type)
        if refusal is not None:
            raise refusal
        return status

    async def _take(self, request: Request, key: str, body: bytes, content_type: str | None) -> int:
        try:
            record = self._state.held(key) or await self._state.get(key)
            request.backend = "" if record is None else record.backend
            return await self._receive(record, key, body, content_type)
        except StateUnavailable:
            held = self._backlog.hold(len(body), lambda: self._receive_later(key, body, content_type))
            return 200 if held else 503

    async def _receive_later(self, key: str, body: bytes, content_type: str | None) -> None:
        if await self._receive(await self._state.get(key), key, body, content_type) == 404:
            log.warning("a callback that was held is for no call that is known any more")

    async def _receive(self, record: Record | None, key: str, body: bytes, content_type: str | None) -> int:
        backend = None if record is None else self._backends.get(record.backend)
        if record is None or backend is None or not record.note:  # as of a call sealed with a key that was taken away
            return 404
        note = note_of(record)
        tool = self._published(note.tool)
        return await cast(Receiver, backend).receive(
            PREFIX + key,
            note.group,
            body,
            content_type,
            ended=record.state is CallState.DONE,  # of one whose end is unknown the outcome may still come
            decode="auto" if tool is None else tool.route.decode,
            failure_patterns=() if tool is None else tool.route.failure_patterns,
        )

    async def aclose(self) -> None:
        await self._backlog.aclose()
