"""What calls are called: digests that name a call, tell its content, and say whose it is, without giving any away.

A caller's own call id names a call only together with who sent it and for whom, so that two of them never meet.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import lru_cache, partial
from hashlib import blake2b

import msgspec

from gateway.model import ONCE, CallContext, ToolCall
from gateway.state.sealing import Digester

MAX_PRINCIPALS = 4096  # remembered with their digests, some 500 bytes each
RANDOM_BYTES = 16
PRINT_BYTES = 32
KEY_BYTES = 20
SECRET_BYTES = 16  # that nobody guesses, as a run is what is random in a callback URL
NAME_BYTES = 8  # the rest of the run of a tool that may run twice, which tells it from others where it may be seen
PURPOSE = b"toolgate"  # before every text: the key fills the first block, and only a byte behind it has that digested
USER, NOBODY = "user", ("nobody",)

# Members in any order are the same input; 1 and 1.0 are not, because a tool may tell them apart.
_encode = msgspec.json.Encoder(order="sorted").encode
_pack = msgspec.msgpack.Encoder(order="sorted").encode


# On whose quota a call is, its key, its fingerprint, and both under older keys.
Names = tuple[str, str, str, tuple[tuple[str, str], ...]]


class CallNames:
    """Makes them. Where a tuple is returned, its first name is under the current key, the others under older ones.

    What every kept call needs is digested with BLAKE2b in its keyed mode (RFC 7693): a sixth of the cost of an HMAC,
    and a tenth where the key has been digested once and for all. `alone`: no other process ever sees a fingerprint;
    then it is Python's own hash of the content, which is keyed as well (SipHash), with a key of this process.
    """

    def __init__(self, digester: Digester, *, alone: bool = False) -> None:
        self._digester = digester
        self._alone = alone
        calls, contents = _begun(digester.digests("call"), KEY_BYTES), _begun(digester.digests("content"), PRINT_BYTES)
        self._call, self._content = calls[0], contents[0]
        self._older = list(zip(calls[1:], contents[1:], strict=True))
        self._question = _begun(digester.digests("question"), PRINT_BYTES)[0]
        self._known = lru_cache(maxsize=MAX_PRINCIPALS)(self._principal)
        self._users = lru_cache(maxsize=MAX_PRINCIPALS)(partial(digester.digests, "user"))

    def _principal(self, principal: str) -> tuple[tuple[str, ...], bytes]:
        """On whose quota a principal's calls are, and how their names begin, before they are digested."""
        # Neither principals nor call ids nor JSON have control characters, so no two joined by them are the same text.
        return self._digester.digests("principal", principal), principal.encode("utf-8", "surrogatepass") + b"\n"

    def owners(self, principal: str) -> tuple[str, ...]:
        """On whose quota a call is."""
        return self._known(principal)[0]

    def keyed(self, principal: str, call: ToolCall) -> Names:
        """The names of a call that has an id of the caller's. Its content is the tool as requested, and the input."""
        owners, name = self._known(principal)
        call_id, context, ref = call.call_id, call.context, call.ref
        assert call_id is not None
        name += call_id.encode()
        if context.user_id is not None or context.tokens:
            name += _for(_user(context))
        try:
            content = _pack((ref.tool, ref.version, call.arguments))  # two thirds of the cost of JSON, and shorter
        except OverflowError:  # it has no integers beyond 64 bits
            content = _encode((ref.tool, ref.version, call.arguments))
        key = self._call.copy()
        key.update(name)
        if self._alone:  # nothing is older than the process
            return owners[0], key.hexdigest(), str(hash(content)), ()
        older = [(_digest(one, name), _digest(other, content)) for one, other in self._older] if self._older else ()
        return owners[0], key.hexdigest(), _digest(self._content, content), tuple(older)

    def unkeyed(self, principal: str, call: ToolCall) -> Names:
        """The names of a call without an id: a new key, and its question."""
        return self.owners(principal)[0], secrets.token_urlsafe(RANDOM_BYTES), self.question(principal, call), ()

    def question(self, principal: str, call: ToolCall) -> str:
        """Who asks what for whom, under the current key alone."""
        name = self._known(principal)[1]
        name += _encode((call.ref.tool, call.ref.version, call.arguments, *_user(call.context)))
        return _digest(self._question, name)

    def keys_of_id(self, principal: str, call_id: str, user_id: str | None = None) -> tuple[str, ...]:
        """The keys of a call for a user or, with None, for nobody in particular."""
        name = self._known(principal)[1] + call_id.encode()
        if user_id is not None:
            name += _for((USER, user_id))
        return tuple([_digest(begun, name) for begun in (self._call, *(call for call, _ in self._older))])

    def users(self, principal: str, user_id: str) -> tuple[str, ...]:
        """For whom a call is, where its caller's credential says so."""
        return self._users(principal, user_id)

    def group(self, principal: str, name: str | None) -> str:
        """A conversation as tool servers know it: nobody chooses another's, and one without a name is a new one."""
        if name is None:
            return ONCE + secrets.token_urlsafe(RANDOM_BYTES)
        return self._digester.digest("group", principal, name)


def new_run(*, named: bool) -> str:
    """What tells a run of a call from its others, if it is `named` also where anybody may see it."""
    return secrets.token_hex(SECRET_BYTES + NAME_BYTES if named else SECRET_BYTES)


def _user(context: CallContext) -> tuple[object, ...]:
    """Whose call it is besides the principal's: the user it names, else whoever the tokens belong to."""
    if context.user_id is not None:
        return (USER, context.user_id)
    if context.tokens:
        return ("tokens", context.tokens)
    return NOBODY


def _for(user: tuple[object, ...]) -> bytes:
    """How the name of a call ends that is for somebody."""
    return b"\n" + _encode(user)


def _begun(keys: Iterable[str], size: int) -> list[blake2b]:
    """Digests of so many bytes under each key, to be gone on with by a copy."""
    return [blake2b(PURPOSE, key=key.encode(), digest_size=size) for key in keys]


def _digest(begun: blake2b, text: bytes) -> str:
    digest = begun.copy()
    digest.update(text)
    return digest.hexdigest()
