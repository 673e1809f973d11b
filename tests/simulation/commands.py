"""The commands of Redis that the scripts use, over plain Python objects: exact in what they do and reply.

`test_model.py` gives the same commands to a real server. A command, or a form of one, that the scripts do not use is
refused, so that a new one is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar


class Status(bytes):
    """A reply such as OK."""


Reply: TypeAlias = int | bytes | list[bytes | None] | Status | None


class CommandError(Exception):
    """An error reply; its text begins with its kind."""


WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
WRITES = b"""DEL HDEL HINCRBY HSET PEXPIRE RENAME SADD SET SPOP SREM ZADD ZREM ZREMRANGEBYSCORE""".split()
OK = Status(b"OK")
V = TypeVar("V")


class Hash(dict[bytes, bytes]): ...


class Scores(dict[bytes, float]):
    """A sorted set."""

    def ordered(self) -> list[bytes]:
        return sorted(self, key=lambda member: (self[member], member))


class Members(dict[bytes, None]):
    """A set, in the order in which it was filled."""


Value: TypeAlias = bytes | Hash | Scores | Members
Copy: TypeAlias = dict[bytes, tuple[Value, int | None]]


class Data:
    """The keys of one server. `now_ms` is its clock, which stands still during a script.

    `pick` chooses from a set at random. `write` takes each command that changed something, in a form that has the same
    effect on a copy at any time: with the times at which keys expire, and with what was picked.
    """

    def __init__(
        self,
        pick: Callable[[list[bytes], int], list[bytes]] = lambda members, count: members[:count],
        write: Callable[[Sequence[bytes]], object] = lambda command: None,
    ) -> None:
        self.values: dict[bytes, Value] = {}
        self.expires_ms: dict[bytes, int] = {}
        self.now_ms = 0
        self.read_only = False
        self.write = write
        self._pick = pick
        self._commands = {
            name.removeprefix("_do_").encode(): getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }

    def run(self, command: Sequence[bytes]) -> Reply:
        """Carries out one command. Raises CommandError."""
        carry_out = self._commands.get(command[0].lower())
        if carry_out is None:
            raise CommandError(f"ERR unknown command '{command[0].decode()}'")
        if self.read_only and command[0] in WRITES:
            raise CommandError("READONLY You can't write against a read only replica.")
        reply: Reply = carry_out(*command[1:])
        return reply

    def copy(self) -> Copy:
        """Everything that has not expired."""
        live = [key for key in list(self.values) if self._live(key) is not None]
        return {key: (_copied(self.values[key]), self.expires_ms.get(key)) for key in live}

    def load(self, copied: Copy) -> None:
        """Puts there what `copy` gave."""
        for key, (value, expires_ms) in copied.items():
            self.values[key] = _copied(value)
            if expires_ms is not None:
                self.expires_ms[key] = expires_ms

    # Keys.

    def _live(self, key: bytes) -> Value | None:
        value = self.values.get(key)
        if value is not None and self.expires_ms.get(key, math.inf) <= self.now_ms:
            self._drop(key)
            return None
        return value

    def _drop(self, key: bytes) -> None:
        self.values.pop(key, None)
        self.expires_ms.pop(key, None)

    def _get(self, key: bytes, kind: type[V]) -> V | None:
        value = self._live(key)
        if value is not None and not isinstance(value, kind):
            raise CommandError(WRONG_TYPE)
        return value

    def _open(self, key: bytes, kind: type[V]) -> V:
        """The value to change; an empty one is put there if there is none."""
        value = self._get(key, kind)
        if value is None:
            value = kind()
            self.values[key] = value  # type: ignore[assignment]
        return value

    def _shrunk(self, key: bytes) -> None:
        """Drops what is empty."""
        if not self.values.get(key, True):
            self._drop(key)

    def _do_del(self, *keys: bytes) -> int:
        gone = [key for key in dict.fromkeys(keys) if self._live(key) is not None]
        for key in gone:
            self._drop(key)
        if gone:
            self.write((b"DEL", *gone))
        return len(gone)

    def _do_exists(self, *keys: bytes) -> int:
        return sum(self._live(key) is not None for key in keys)

    def _do_pexpire(self, key: bytes, left_ms: bytes) -> int:
        return self._do_pexpireat(key, b"%d" % (self.now_ms + _integer(left_ms)))

    def _do_pexpireat(self, key: bytes, at_ms: bytes) -> int:
        if self._live(key) is None:
            return 0
        self.expires_ms[key] = _integer(at_ms)
        self.write((b"PEXPIREAT", key, at_ms))
        self._live(key)
        return 1

    def _do_pttl(self, key: bytes) -> int:
        if self._live(key) is None:
            return -2
        return self.expires_ms[key] - self.now_ms if key in self.expires_ms else -1

    def _do_rename(self, key: bytes, to: bytes) -> Status:
        value = self._live(key)
        if value is None:
            raise CommandError("ERR no such key")
        expires_ms = self.expires_ms.get(key)
        self._drop(key)
        self._drop(to)
        self.values[to] = value
        if expires_ms is not None:
            self.expires_ms[to] = expires_ms
        self.write((b"RENAME", key, to))
        return OK

    def _do_time(self) -> list[bytes | None]:
        return [b"%d" % (self.now_ms // 1000), b"%d" % (self.now_ms % 1000 * 1000)]

    # Strings.

    def _do_get(self, key: bytes) -> bytes | None:
        return self._get(key, bytes)

    def _do_mget(self, *keys: bytes) -> list[bytes | None]:
        found = [self._live(key) for key in keys]
        return [each if isinstance(each, bytes) else None for each in found]

    def _do_set(self, key: bytes, value: bytes, *options: bytes) -> Status | None:
        words = [option.upper() for option in options]
        if b"NX" in words:
            words.remove(b"NX")
            if self._live(key) is not None:
                return None
        expires_ms = None
        match words:
            case []:
                pass
            case [b"PX", left_ms]:
                expires_ms = self.now_ms + _positive(left_ms)
            case [b"PXAT", at_ms]:
                expires_ms = _integer(at_ms)
            case _:
                raise CommandError("ERR syntax error")
        self._drop(key)
        self.values[key] = value
        if expires_ms is not None:
            self.expires_ms[key] = expires_ms
        self.write((b"SET", key, value) if expires_ms is None else (b"SET", key, value, b"PXAT", b"%d" % expires_ms))
        return OK

    # Hashes.

    def _do_hset(self, key: bytes, *pairs: bytes) -> int:
        fields = self._open(key, Hash)
        before = len(fields)
        fields.update(zip(pairs[::2], pairs[1::2], strict=True))
        self.write((b"HSET", key, *pairs))
        return len(fields) - before

    def _do_hget(self, key: bytes, name: bytes) -> bytes | None:
        return (self._get(key, Hash) or Hash()).get(name)

    def _do_hmget(self, key: bytes, *names: bytes) -> list[bytes | None]:
        fields = self._get(key, Hash) or Hash()
        return [fields.get(name) for name in names]

    def _do_hdel(self, key: bytes, *names: bytes) -> int:
        return self._remove(key, Hash, b"HDEL", names)

    def _do_hincrby(self, key: bytes, name: bytes, by: bytes) -> int:
        grows = _integer(by)
        fields = self._open(key, Hash)
        try:
            total = int(fields.get(name, b"0")) + grows
        except ValueError as exc:
            raise CommandError("ERR hash value is not an integer") from exc
        fields[name] = b"%d" % total
        self.write((b"HINCRBY", key, name, by))
        return total

    def _do_hstrlen(self, key: bytes, name: bytes) -> int:
        return len((self._get(key, Hash) or Hash()).get(name, b""))

    # Sets.

    def _do_sadd(self, key: bytes, *members: bytes) -> int:
        there = self._open(key, Members)
        before = len(there)
        there.update(dict.fromkeys(members))
        self.write((b"SADD", key, *members))
        return len(there) - before

    def _do_srem(self, key: bytes, *members: bytes) -> int:
        return self._remove(key, Members, b"SREM", members)

    def _do_smembers(self, key: bytes) -> list[bytes | None]:
        return list(self._get(key, Members) or ())

    def _do_spop(self, key: bytes, count: bytes) -> list[bytes | None]:
        picked = self._pick(list(self._get(key, Members) or ()), _integer(count))
        self._remove(key, Members, b"SREM", picked)
        return list(picked)

    # Sorted sets.

    def _do_zadd(self, key: bytes, *pairs: bytes) -> int:
        scores = [_float(score) for score in pairs[::2]]
        there = self._open(key, Scores)
        before = len(there)
        there.update(zip(pairs[1::2], scores, strict=True))
        self.write((b"ZADD", key, *pairs))
        return len(there) - before

    def _do_zrem(self, key: bytes, *members: bytes) -> int:
        return self._remove(key, Scores, b"ZREM", members)

    def _do_zcard(self, key: bytes) -> int:
        return len(self._get(key, Scores) or ())

    def _do_zscore(self, key: bytes, member: bytes) -> bytes | None:
        score = (self._get(key, Scores) or Scores()).get(member)
        return None if score is None else _number(score)

    def _do_zcount(self, key: bytes, low: bytes, high: bytes) -> int:
        return len(self._between(key, low, high))

    def _do_zrangebyscore(self, key: bytes, low: bytes, high: bytes, *limit: bytes) -> list[bytes | None]:
        found = self._between(key, low, high)
        if not limit:
            return list(found)
        word, offset, count = limit
        if word.upper() != b"LIMIT":
            raise CommandError("ERR syntax error")
        start = _integer(offset)
        return list(found[start : start + _integer(count)])

    def _do_zremrangebyscore(self, key: bytes, low: bytes, high: bytes) -> int:
        return self._remove(key, Scores, b"ZREM", self._between(key, low, high))

    def _do_zrange(self, key: bytes, first: bytes, last: bytes, *words: bytes) -> list[bytes | None]:
        there = self._get(key, Scores) or Scores()
        start, stop = _integer(first), _integer(last)
        members = there.ordered()
        start = max(0, start + len(members) if start < 0 else start)
        stop = stop + len(members) if stop < 0 else stop
        chosen = members[start : stop + 1] if stop >= 0 else []
        match [word.upper() for word in words]:
            case []:
                return list(chosen)
            case [b"WITHSCORES"]:
                return [each for member in chosen for each in (member, _number(there[member]))]
        raise CommandError("ERR syntax error")

    def _between(self, key: bytes, low: bytes, high: bytes) -> list[bytes]:
        there = self._get(key, Scores) or Scores()
        least, most = _float(low), _float(high)
        return [member for member in there.ordered() if least <= there[member] <= most]

    def _remove(
        self, key: bytes, kind: type[Hash] | type[Scores] | type[Members], command: bytes, names: Sequence[bytes]
    ) -> int:
        there = self._get(key, kind)
        gone = [name for name in dict.fromkeys(names) if there is not None and name in there]
        if there is not None and gone:
            for name in gone:
                del there[name]
            self.write((command, key, *gone))
            self._shrunk(key)
        return len(gone)


def _copied(value: Value) -> Value:
    return value if isinstance(value, bytes) else type(value)(value)  # type: ignore[arg-type]


def _integer(text: bytes) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise CommandError("ERR value is not an integer or out of range") from exc


def _positive(text: bytes) -> int:
    number = _integer(text)
    if number <= 0:
        raise CommandError("ERR invalid expire time in 'set' command")
    return number


def _float(text: bytes) -> float:
    try:
        return float(text)
    except ValueError as exc:
        raise CommandError("ERR value is not a valid float") from exc


def _number(score: float) -> bytes:
    return b"%d" % score if score.is_integer() else repr(score).encode()
