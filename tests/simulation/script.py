"""Runs scripts as Redis does: the real ones, in Lua 5.1, over `commands.Data`.

What `EVAL` converts is converted here: numbers that become arguments, replies that become tables, and the other way.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import hiredis
from lupa.lua51 import LuaRuntime, lua_type

from tests.simulation.commands import CommandError, Data, Status

_lua = LuaRuntime(encoding=None, unpack_returned_tuples=False)
_table = _lua.table_from

# The reply as it goes over the wire, so that it is read by what reads those of a server.
_prelude = rb"""
local raw, unpack_message = ...
local redis, cmsgpack = {}, { unpack = unpack_message }

local function checked(reply)
  if type(reply) == 'table' and reply.err then error(reply.err, 0) end
  return reply
end
function redis.call(...) return checked(raw(...)) end
function redis.pcall(...) return raw(...) end
function redis.error_reply(text) return { err = text } end

local function encoded(value)
  local kind = type(value)
  if kind == 'string' then return '$' .. #value .. '\r\n' .. value .. '\r\n' end
  if kind == 'number' then return string.format(':%d\r\n', value) end
  if kind == 'boolean' then return value and ':1\r\n' or '$-1\r\n' end
  if kind ~= 'table' then return '$-1\r\n' end
  if value.err then return '-' .. value.err .. '\r\n' end
  if value.ok then return '+' .. value.ok .. '\r\n' end
  local parts = {}
  for _, each in ipairs(value) do parts[#parts + 1] = encoded(each) end
  return '*' .. #parts .. '\r\n' .. table.concat(parts)
end

return function(text)
  local script = assert(loadstring('return function(KEYS, ARGV, redis, cmsgpack) ' .. text .. '\nend'))()
  return function(keys, arguments)
    local ok, reply = pcall(script, keys, arguments, redis, cmsgpack)
    if not ok then reply = { err = tostring(reply) } end
    return encoded(reply)
  end
end
"""

Call = Callable[[Sequence[bytes]], Any]


class _Now:
    """The server whose script runs."""

    call: Call


def _raw(*words: Any) -> Any:
    try:
        return _to_lua(_Now.call([_argument(word) for word in words]))
    except CommandError as exc:
        return _table({b"err": str(exc).encode()})


def _argument(word: Any) -> bytes:
    """Numbers lose nothing, and integers have no exponent."""
    if isinstance(word, bytes):
        return word
    if isinstance(word, (int, float)) and not isinstance(word, bool):
        return b"%d" % word if word == int(word) else repr(word).encode()
    raise CommandError("ERR Lua redis lib command arguments must be strings or integers")


def _to_lua(reply: Any) -> Any:
    if reply is None:
        return False
    if isinstance(reply, Status):
        return _table({b"ok": bytes(reply)})
    if isinstance(reply, list):
        return _table([False if each is None else each for each in reply])
    return reply


def _unpack_message(text: bytes) -> Any:
    if text[0] & 0xF0 == 0x80 or text[0] == 0xDE:  # the settings, which no script changes
        return _unpack_settings(text)
    value, end = _decode(text, 0)
    assert end == len(text)
    return value


@lru_cache
def _unpack_settings(text: bytes) -> Any:
    return _decode(text, 0)[0]


def plain(value: Any) -> Any:
    """A message that was unpacked, as lists."""
    return [plain(each) for each in value.values()] if lua_type(value) == "table" else value


def unpack(text: bytes) -> Any:
    """A list in MessagePack."""
    return plain(_unpack_message(text))


def _decode(text: bytes, at: int) -> tuple[Any, int]:  # noqa: C901 - one case for each type of MessagePack
    """The value that begins at a place, as Lua has it, and where it ends."""
    head = text[at]
    at += 1
    if head <= 0x7F:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if head <= 0x8F:
        return _map(text, at, head & 0x0F)
    if head <= 0x9F:
        return _array(text, at, head & 0x0F)
    if head <= 0xBF:
        return text[at : at + (head & 0x1F)], at + (head & 0x1F)
    match head:
        case 0xC0:
            return None, at
        case 0xC2 | 0xC3:
            return head == 0xC3, at
        case 0xCA | 0xCB:
            form, size = (">f", 4) if head == 0xCA else (">d", 8)
            return struct.unpack_from(form, text, at)[0], at + size
        case 0xCC | 0xCD | 0xCE | 0xCF | 0xD0 | 0xD1 | 0xD2 | 0xD3:
            size = 1 << (head & 3)
            return int.from_bytes(text[at : at + size], "big", signed=head >= 0xD0), at + size
    size = 1 << ((head - 0xD9) if head in (0xD9, 0xDA, 0xDB) else 1 + (head & 1))
    assert head in (0xD9, 0xDA, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF), "cmsgpack 0.4.0 does not know binary data"
    count, at = int.from_bytes(text[at : at + size], "big"), at + size
    if head <= 0xDB:
        return text[at : at + count], at + count
    return _array(text, at, count) if head <= 0xDD else _map(text, at, count)


def _array(text: bytes, at: int, count: int) -> tuple[Any, int]:
    values = []
    for _ in range(count):
        value, at = _decode(text, at)
        values.append(value)
    return _table(values), at


def _map(text: bytes, at: int, count: int) -> tuple[Any, int]:
    values = {}
    for _ in range(count):
        key, at = _decode(text, at)
        values[key], at = _decode(text, at)
    return _table(values), at


_compile = _lua.execute(_prelude, _raw, _unpack_message)


class Script:
    """A script, compiled; `known` has all by their digests."""

    known: ClassVar[dict[bytes, Script]] = {}

    def __init__(self, text: bytes) -> None:
        self.digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        self._run = _compile(text)
        self.known[self.digest] = self

    def run(self, call: Call, keys: Sequence[bytes], arguments: Sequence[bytes]) -> Any:
        """The reply as hiredis reads it; an error as its exception. `call` carries out a command."""
        _Now.call = call
        reader = hiredis.Reader()
        reader.feed(self._run(_table(list(keys)), _table(list(arguments))))
        return reader.gets()


@lru_cache
def script(text: bytes) -> Script:
    """Compiles each text once."""
    return Script(text)


def evaluate(text: bytes, data: Data, keys: Sequence[bytes] = (), *arguments: bytes) -> Any:
    """Runs a script on data alone."""
    return script(text).run(data.run, keys, arguments)
