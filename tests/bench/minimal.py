"""A gateway with nothing to choose: each step of the reference work once, by the fastest means there are.

It knows one dialect on each side, keeps no record of a call, has no breaker and no words for what is wrong. What it
costs beyond the echo is the price of the work in Python on this machine; what Toolgate costs beyond it, that of
everything else Toolgate does.

`python -m tests.bench.minimal FILE`, where FILE is JSON: port, tools_port, tools, public_key, audience, per_s (the
limit of each caller), log.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema_rs
import jwt
import msgspec
import uvicorn
from prometheus_client import Counter, Histogram

from gateway.net.client import Origin, Pool
from tests.bench import calls

REMEMBERED_S = 60.0  # whose token this is
TIMEOUT_S = 30.0
MAX_BODY = 1 << 20  # bytes
WRITE_EVERY_S = 0.05
JSON, OXP = (b"content-type", b"application/json"), (b"oxp-version", b"1.0")


class Asked(msgspec.Struct):
    tool_id: str
    input: dict[str, Any]
    call_id: str = ""


class Envelope(msgspec.Struct):
    request: Asked


class Answer(msgspec.Struct):
    call_id: str
    success: bool
    value: Any


class AnswerEnvelope(msgspec.Struct):
    result: Answer


class Line(msgspec.Struct):
    """What the log says of a call."""

    time: float
    status: int
    principal: str
    tool: str
    call_id: str
    duration_s: float
    bytes_in: int
    bytes_out: int


decode_call = msgspec.json.Decoder(Envelope).decode
decode_answer = msgspec.json.Decoder(Answer).decode
encode = msgspec.json.Encoder().encode


class RefusedError(Exception):
    """A call that is not sent on, with its status."""


class Tool:
    """What is known of a tool before it is called."""

    def __init__(self, name: str, counted: Counter, timed: Histogram) -> None:
        self.name = name
        self.is_valid = jsonschema_rs.validator_for(calls.SCHEMA, offline=True, validate_formats=True).is_valid
        self.count = counted.labels(name).inc
        self.time = timed.labels(name).observe


class Gateway:
    """An ASGI application."""

    def __init__(self, settings: dict[str, Any]) -> None:
        counted, timed = Counter("calls", "Calls.", ["tool"]), Histogram("call_seconds", "Their time.", ["tool"])
        self._tools = {f"{name}@1.0.0": Tool(name, counted, timed) for name in calls.find_tools(settings["tools"])}
        self._pool = Pool(Origin.parse(f"http://127.0.0.1:{settings['tools_port']}"))
        self._key, self._audience = settings["public_key"], settings["audience"]
        self._known: dict[bytes, tuple[str, float]] = {}
        self._interval_s = 1 / settings["per_s"]
        self._due: dict[str, float] = {}
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        threading.Thread(target=self._write, args=(settings["log"],), daemon=True).start()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        began, tool, principal, call_id, status = time.perf_counter(), None, "", "", 200
        try:
            principal = self._principal(scope["headers"])
            asked = decode_call(body).request
            call_id = asked.call_id
            tool = self._tools[asked.tool_id]
            self._limit(principal)
            if not tool.is_valid(asked.input):
                raise RefusedError(422)
            answer = await self._ask(asked)
        except RefusedError as refused:
            status, answer = refused.args[0], b'{"message":"Refused."}'
        headers = [JSON, (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})
        taken_s = time.perf_counter() - began
        if tool is not None:
            tool.count()
            tool.time(taken_s)
        name = "" if tool is None else tool.name
        self._lines.put(Line(time.time(), status, principal, name, call_id, taken_s, len(body), len(answer)))

    def _principal(self, headers: list[tuple[bytes, bytes]]) -> str:
        """Who calls; a token is verified once a minute."""
        token = next((value[7:] for name, value in headers if name == b"authorization"), None)
        if token is None:
            raise RefusedError(401)
        digest, now = sha256(token).digest(), time.time()
        known = self._known.get(digest)
        if known is None or known[1] < now:
            claims = jwt.decode(token.decode(), self._key, algorithms=["RS256"], audience=self._audience)
            known = self._known[digest] = claims["sub"], min(claims["exp"], now + REMEMBERED_S)
        return known[0]

    def _limit(self, principal: str) -> None:
        """Counts a call, by the generic cell rate algorithm; a second's worth may come at once."""
        now = time.monotonic()
        due = max(self._due.get(principal, now), now)
        if due + self._interval_s > now + 1.0:
            raise RefusedError(429)
        self._due[principal] = due + self._interval_s

    async def _ask(self, asked: Asked) -> bytes:
        """Has the tool server run it, as a part of a trace."""
        trace = b"00-%b-%b-01" % (os.urandom(16).hex().encode(), os.urandom(8).hex().encode())
        reply = await self._pool.request(
            b"POST",
            b"/tools/call",
            (JSON, OXP),
            encode(asked),
            more=((b"traceparent", trace),),
            timeout_s=TIMEOUT_S,
            max_body=MAX_BODY,
        )
        answer = decode_answer(reply.body)
        answer.call_id = asked.call_id
        return encode(AnswerEnvelope(answer))

    def _write(self, path: str) -> None:
        """Writes the log, apart from the calls."""
        with Path(path).open("wb", buffering=0) as file:
            while True:
                lines = [self._lines.get()]
                time.sleep(WRITE_EVERY_S)
                lines += [self._lines.get() for _ in range(self._lines.qsize())]
                file.write(b"\n".join(map(encode, lines)) + b"\n")


def main() -> None:
    """Serves until it is stopped, under stock uvicorn at its fastest."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    app = Gateway(settings)
    gc.collect()
    gc.freeze()
    uvicorn.run(app, port=settings["port"], loop="uvloop", http="httptools", log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
