"""Digests that stand for a call, its content and its owner, and reveal none of them.

A caller's call id identifies a call only together with the principal and the user, so two callers may use the same id.
"""

from __future__ import annotations

import secrets
from functools import lru_cache, partial

import msgspec

from gateway.core.model import SINGLE_CALL_GROUP, CallContext, CallKey, ToolCall
from gateway.core.sealing import Digester, hashed, hashers
from gateway.redisclient.store import MARKS, partition_of

MAX_PRINCIPALS = 4096  # remembered with their digests, some 500 bytes each
RANDOM_BYTES = 16
PRINT_BYTES = 32
KEY_BYTES = 20
SECRET_BYTES = 16  # of a run, which is what makes a callback URL unguessable
NAME_BYTES = 8  # more of the run of a tool that may run twice: the part that distinguishes runs in public
PURPOSE = b"toolgate"
USER, NO_USER = "user", ("nobody",)

# Members in any order are the same input; 1 and 1.0 are not, because they may differ to a tool.
_encode = msgspec.json.Encoder(order="sorted").encode
_pack = msgspec.msgpack.Encoder(order="sorted").encode


# The owner of its quota, its key, its fingerprint, and the latter two under older keys.
Names = tuple[str, CallKey, str, tuple[tuple[str, str], ...]]


class CallNames:
    """Makes the digests. The first of a tuple is made with the operator's current key, the others with older keys.

    `alone`: no other process ever sees a fingerprint. Then it is Python's own hash of the content, which is keyed for
    this process (SipHash). `partitions`: of the state. With several, all keys of a principal begin with the mark of its
    partition, and who knows a key knows where the call is.
    """

    def __init__(self, digester: Digester, *, alone: bool = False, partitions: int = 1) -> None:
        self._digester = digester
        self._alone = alone
        self._partitions = partitions
        calls = hashers(digester.digests("call"), PURPOSE, KEY_BYTES)
        contents = hashers(digester.digests("content"), PURPOSE, PRINT_BYTES)
        self._call, self._content = calls[0], contents[0]
        self._older = list(zip(calls[1:], contents[1:], strict=True))
        self._question = hashers(digester.digests("question"), PURPOSE, PRINT_BYTES)[0]
        self._known = lru_cache(maxsize=MAX_PRINCIPALS)(self._principal)
        self._users = lru_cache(maxsize=MAX_PRINCIPALS)(partial(digester.digests, "user"))

    def _principal(self, principal: str) -> tuple[tuple[str, ...], bytes, str]:
        """A principal's digests as the owner of a quota, the prefix of what is digested for its calls, and its mark."""
        mark = "" if self._partitions == 1 else MARKS[partition_of(principal, self._partitions)]
        # Neither principals nor call ids nor JSON contain control characters, so joining by them is unambiguous.
        prefix = principal.encode("utf-8", "surrogatepass") + b"\n"
        return self._digester.digests("principal", principal), prefix, mark

    def owners(self, principal: str) -> tuple[str, ...]:
        """A principal's digests as the owner of a quota."""
        return self._known(principal)[0]

    def mark(self, principal: str) -> str:
        """What all keys of a principal begin with."""
        return self._known(principal)[2]

    def keyed(self, principal: str, call: ToolCall) -> Names:
        """The names of a call with an id. Its content is the tool as requested and the arguments."""
        owners, name, mark = self._known(principal)
        call_id, context, ref = call.call_id, call.context, call.ref
        assert call_id is not None
        name += call_id.encode()
        if context.user_id is not None or context.tokens:
            name += _for(_user(context))
        try:
            content = _pack((ref.tool, ref.version, call.arguments))  # two thirds of the cost of JSON
        except OverflowError:  # MessagePack has no integers beyond 64 bits
            content = _encode((ref.tool, ref.version, call.arguments))
        key = CallKey(mark + hashed(self._call, name))
        if self._alone:  # no call is older than the process and its keys
            return owners[0], key, str(hash(content)), ()
        older = tuple([(mark + hashed(one, name), hashed(other, content)) for one, other in self._older])
        return owners[0], key, hashed(self._content, content), older

    def unkeyed(self, principal: str, call: ToolCall) -> Names:
        """The names of a call without an id: a random key, and its question as the fingerprint."""
        owners, _, mark = self._known(principal)
        return owners[0], CallKey(mark + secrets.token_urlsafe(RANDOM_BYTES)), self.question(principal, call), ()

    def of_request(self, principal: str, request_key: str, call: ToolCall) -> Names:
        """The names of a call that its request identifies. The fingerprint includes the user that it is for."""
        (key, *older_keys), ref = self.keys_of_request(principal, request_key), call.ref
        content = _encode((ref.tool, ref.version, call.arguments, *_user(call.context)))
        older = zip(older_keys, [hashed(other, content) for _, other in self._older], strict=True)
        return self.owners(principal)[0], CallKey(key), hashed(self._content, content), tuple(older)

    def keys_of_request(self, principal: str, request_key: str) -> tuple[str, ...]:
        """The keys of the call that a request began; never those of a call with an id, which has no tabs."""
        return self._keys(principal, b"\t" + request_key.encode())

    def question(self, principal: str, call: ToolCall) -> str:
        """The digest of principal, tool, arguments and user, made with the current key only."""
        name = self._known(principal)[1]
        name += _encode((call.ref.tool, call.ref.version, call.arguments, *_user(call.context)))
        return hashed(self._question, name)

    def keys_of_id(self, principal: str, call_id: str, user_id: str | None = None) -> tuple[str, ...]:
        """The keys of a call with this id for a user or, with None, for no particular user."""
        return self._keys(principal, call_id.encode() + (b"" if user_id is None else _for((USER, user_id))))

    def _keys(self, principal: str, name: bytes) -> tuple[str, ...]:
        _, prefix, mark = self._known(principal)
        hashers = (self._call, *(call for call, _ in self._older))
        return tuple([mark + hashed(hasher, prefix + name) for hasher in hashers])

    def users(self, principal: str, user_id: str) -> tuple[str, ...]:
        """The digests of the user whom a caller's credential names."""
        return self._users(principal, user_id)

    def group(self, principal: str, name: str | None, user_id: str | None = None) -> str:
        """A conversation as tool servers know it; without a name a new one. Nobody can choose another's."""
        if name is None:
            return SINGLE_CALL_GROUP + secrets.token_urlsafe(RANDOM_BYTES)
        return self._digester.digest("group", principal, name, *(() if user_id is None else (user_id,)))


def new_run(*, named: bool) -> str:
    """A random id of one run of a call; `named`: with a part that may be public."""
    return secrets.token_hex(SECRET_BYTES + NAME_BYTES if named else SECRET_BYTES)


def _user(context: CallContext) -> tuple[object, ...]:
    """The user a call is for: the one it names, else the owner of its tokens."""
    if context.user_id is not None:
        return (USER, context.user_id)
    if context.tokens:
        return ("tokens", context.tokens)
    return NO_USER


def _for(user: tuple[object, ...]) -> bytes:
    """The end of what is digested for a call that is for a user."""
    return b"\n" + _encode(user)
