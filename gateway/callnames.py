"""What calls are called: digests that name a call, tell its content, and say whose it is, without giving any away.

A caller's own call id names a call only together with who sent it and for whom, so that two of them never meet.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from functools import lru_cache
from hashlib import blake2b

import msgspec

from gateway.model import ToolCall
from gateway.state.sealing import Digester

MAX_OPEN = 10_000  # some 200 bytes each
MAX_PRINCIPALS = 4096  # remembered with their digests, some 500 bytes each
RANDOM_BYTES = 16
FINGERPRINT_BYTES = 32
NOBODY = ("nobody",)

# Members in any order are the same input; 1 and 1.0 are not, because a tool may tell them apart.
_encode = msgspec.json.Encoder(order="sorted").encode


class CallNames:
    """Makes them. Where a tuple is returned, its first name is under the current key, the others under older ones."""

    def __init__(self, digester: Digester) -> None:
        self._digester = digester
        self._content_keys = [key.encode() for key in digester.digests("content")]
        self.owners = lru_cache(maxsize=MAX_PRINCIPALS)(self._owners)

    def _owners(self, principal: str) -> tuple[str, ...]:
        """On whose quota a call is."""
        return self._digester.digests("principal", principal)

    def keys(self, principal: str, call: ToolCall) -> tuple[str, ...]:
        """The keys of a call that has an id of the caller's."""
        return self._digester.digests(f"call {principal}", _encode((call.call_id, *_user(call))))

    def keys_of_id(self, principal: str, call_id: str) -> tuple[str, ...]:
        """The keys of a call that was for no user in particular."""
        return self._digester.digests(f"call {principal}", _encode((call_id, *NOBODY)))

    def new_key(self) -> str:
        """A key for a call without an id."""
        return secrets.token_urlsafe(RANDOM_BYTES)

    def fingerprints(self, call: ToolCall) -> tuple[str, ...]:
        """What is asked for: the tool as it was requested, and the input."""
        content = _content(call)
        # A sixth of the cost of an HMAC, and nobody but us ever sees one.
        return tuple(
            [blake2b(content, key=key, digest_size=FINGERPRINT_BYTES).hexdigest() for key in self._content_keys]
        )

    def question(self, principal: str, call: ToolCall) -> str:
        """Who asks what for whom, of calls without an id."""
        return self._digester.digest(f"question {principal}", _encode(_user(call)), _content(call))

    def group(self, principal: str, name: str | None) -> str:
        """A conversation as tool servers know it: nobody chooses another's, and one without a name is a new one."""
        if name is None:
            return secrets.token_urlsafe(RANDOM_BYTES)
        return self._digester.digest("group", principal, name)


class OpenCalls:
    """Calls without an id that wait for their user: whoever asks the same again joins them."""

    def __init__(self, names: CallNames) -> None:
        self._names = names
        self._keys: OrderedDict[str, str] = OrderedDict()  # by what is asked

    def key_of(self, principal: str, call: ToolCall) -> str | None:
        return self._keys.get(self._names.question(principal, call)) if self._keys else None

    def note(self, principal: str, call: ToolCall, key: str | None) -> None:
        """Such a call waits under `key`; None: it does not, or no longer."""
        if key is not None:
            if len(self._keys) >= MAX_OPEN:
                self._keys.popitem(last=False)
            self._keys[self._names.question(principal, call)] = key
        elif self._keys:
            self._keys.pop(self._names.question(principal, call), None)


def _user(call: ToolCall) -> tuple[object, ...]:
    """Whose call it is besides the principal's: the user it names, else whoever the tokens belong to."""
    if call.context.user_id is not None:
        return ("user", call.context.user_id)
    if call.context.tokens:
        return ("tokens", call.context.tokens)
    return NOBODY


def _content(call: ToolCall) -> bytes:
    return _encode((call.ref.tool, call.ref.version, call.arguments))
