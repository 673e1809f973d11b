"""What tool servers bring later: `POST /callbacks/{token}` (RAP, Transport: callback URL).

The token names a call, and proves that we made it before anything is read or looked up. The tool server that holds it
may end that one call and nothing else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from hmac import compare_digest
from typing import Protocol, cast

from gateway.errors import GatewayError
from gateway.kept.backlog import Backlog
from gateway.kept.standing import PREFIX, Later, note_of
from gateway.ports import Backend
from gateway.request import Request
from gateway.routing import Decode, PublishedTool
from gateway.state.port import DONE, Record, State, StateUnavailable
from gateway.state.sealing import Digester
from gateway.wire import Body

log = logging.getLogger("gateway.callbacks")

PATH = "/callbacks/"
MAC_BYTES = 16
PURPOSE = b"callback "  # before all that is signed, so that the block that holds our own key is digested only once


class CallbackTokens:
    """Makes the last segment of callback URLs: `<key>.<run>.<MAC>`. All keys open, the first one makes.

    A run is 128 random bits. The MAC is one of BLAKE2b in its keyed mode (RFC 7693).
    """

    def __init__(self, digester: Digester) -> None:
        keys = digester.digests("callback")
        self._begun = [blake2b(PURPOSE, key=key.encode(), digest_size=MAC_BYTES) for key in keys]

    def mint(self, key: str, run: str) -> str:
        """A token for the outcome of this run of the call with that key."""
        signed = f"{key}.{run}"
        return f"{signed}.{_mac(self._begun[0], signed)}"

    def open(self, token: str) -> tuple[str, str] | None:
        """The key of the call, and its run; None for a token that is not ours."""
        if not token.isascii():  # as ours are: no others can be compared in constant time
            return None
        signed, _, mac = token.rpartition(".")
        for begun in self._begun:
            if compare_digest(_mac(begun, signed), mac):
                key, _, run = signed.partition(".")
                return key, run
        return None


def _mac(begun: blake2b, signed: str) -> str:
    digest = begun.copy()
    digest.update(signed.encode())
    return digest.hexdigest()


class Receiver(Protocol):
    """A backend whose tool server calls back."""

    async def receive(
        self,
        call_id: str,
        group: str,
        body: bytes,
        content_type: str | None,
        *,
        run: str,
        ended: bool,
        decode: Decode,
        failure_patterns: Sequence[re.Pattern[str]],
    ) -> int: ...


class Callbacks:
    """Answers callbacks, on whatever replica they arrive.

    `absent` takes those for a backend, by its name, that is not among `backends`: while a configuration is rolled out,
    replicas have different ones. `published` finds a tool by its full id. In the `backlog` they wait for the state.
    """

    def __init__(
        self,
        state: State,
        tokens: CallbackTokens,
        *,
        backends: Mapping[str, Backend],
        published: Callable[[str], PublishedTool | None],
        absent: Callable[[str], Receiver],
        backlog: Backlog,
    ) -> None:
        self._state = state
        self._tokens = tokens
        self._backends = backends
        self._published = published
        self._absent = absent
        self._backlog = backlog

    async def answer(self, request: Request, token: str, content_type: str | None, arriving: Body) -> int:
        """The status to answer with. Never 5xx for a passing trouble of ours, unless there is no room to wait it out.

        A tool server that is refused does not come again, so what cannot be looked up now is held and looked up later,
        and a body that is too large ends its call like any other that cannot be read. Raises PAYLOAD_TOO_LARGE.
        """
        opened = self._tokens.open(token)
        if opened is None:
            return 404
        key, run = opened
        refusal = None
        try:
            whole = arriving.now()
            body = await arriving.read() if whole is None else whole
        except GatewayError as too_large:  # nor will that result be sent again, so nobody shall wait for it
            body, refusal = b"", too_large
        request.bytes_in = len(body)
        if request.served is not None:
            request.served.keep()  # some do not wait for an answer, and would take back what they have brought
        try:
            record = self._state.held(key) or await self._state.get(key)
            request.backend = "" if record is None else record.backend
            status = await self._receive(record, key, run, body, content_type)
        except StateUnavailable:
            held = self._backlog.hold(len(body), partial(self._receive_later, key, run, body, content_type))
            status = 200 if held else 503
        if refusal is not None:
            raise refusal
        return status

    def are_awaited(self) -> bool:
        """Whether calls are pending here whose outcome a tool server is to bring."""
        pending = self._state.pending()
        return any(pending[name] for name in self._backends)

    @staticmethod
    def is_path(path: str) -> bool:
        """Whether callbacks come here, or what is taken for one."""
        return path.startswith(PATH)

    async def _receive_later(self, key: str, run: str, body: bytes, content_type: str | None) -> None:
        if await self._receive(await self._state.get(key), key, run, body, content_type) == 404:
            log.warning("a callback that was held is for no call that is known any more")

    async def _receive(self, record: Record | None, key: str, run: str, body: bytes, content_type: str | None) -> int:
        if record is None or not record.note:  # as of a call sealed with a key that was taken away
            return 404
        note = note_of(record)
        if note.later is None or note.later.run != run:  # an earlier call had the same id
            return 404
        receiver = cast(Receiver | None, self._backends.get(record.backend)) or self._absent(record.backend)
        return await receiver.receive(
            PREFIX + key,
            note.group,
            body,
            content_type,
            run=run,
            ended=record.state is DONE,  # of one whose end is unknown the outcome may still come
            decode=note.later.decode,
            failure_patterns=self._patterns(note.later, note.tool),
        )

    def _patterns(self, later: Later, tool_id: str) -> Sequence[re.Pattern[str]]:
        """As they were when the call began; those that are too long for a note as they are now."""
        if later.failure_patterns is not None:
            return [re.compile(each) for each in later.failure_patterns]
        tool = self._published(tool_id)
        return () if tool is None else tool.route.failure_patterns
