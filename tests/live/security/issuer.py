"""An issuer of tokens as a process of its own: it publishes what tests set, well-behaved or not.

`PUT` sets what `GET` of the same path answers from then on; `POST /asked` returns how often each path was asked for.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests import plainhttp
from tests.support.processes import LISTENING, Process, listening

answers: dict[str, dict[str, Any]] = {}
asked: Counter[str] = Counter()


class Handler(BaseHTTPRequestHandler):
    """Answers from `answers`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked[self.path] += 1
        answer = answers.get(self.path, {"status": 404})
        time.sleep(answer.get("delay_s", 0.0))
        body = answer.get("body", "").encode() * answer.get("times", 1)
        self._send(answer.get("status", 200), body, answer.get("headers", {}))

    def do_PUT(self) -> None:
        answers[self.path] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._send(200, b"", {})

    def do_POST(self) -> None:
        self._send(200, json.dumps(asked).encode(), {})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"content-type": "application/json", "content-length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it is called by
        """Says nothing."""


@dataclass(frozen=True)
class Issuer:
    """One party at a running issuer process, with paths of its own; `url` is its name, too."""

    process: Process
    base: str
    name: str
    http: httpx.AsyncClient

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"{self.base}/{self.name}"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks.json"

    def called(self, name: str) -> Issuer:
        """Another party at the same process."""
        return Issuer(self.process, self.base, name, self.http)

    async def publish(self, *keys: dict[str, Any], **answer: Any) -> None:
        """Sets the key set, and where it is to be found."""
        await self.answer("/jwks.json", body=json.dumps({"keys": keys}), **answer)
        await self.describe(issuer=self.url, jwks_uri=self.jwks_url)

    async def describe(self, **document: Any) -> None:
        """Sets the discovery document."""
        await self.answer("/.well-known/openid-configuration", body=json.dumps(document))

    async def answer(self, path: str, **answer: Any) -> None:
        """Sets what a path answers: status, headers, body (that many times), delay_s."""
        (await self.http.put(self.url + path, json=answer)).raise_for_status()

    async def asked(self, path: str = "/jwks.json") -> int:
        """How often a path was asked for."""
        counts = (await self.http.post(f"{self.base}/asked")).json()
        return int(counts.get(f"/{self.name}{path}", 0))

    async def kill(self) -> None:
        """Ends the process as an out-of-memory killer would."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def issuer_process(port: int = 0) -> AsyncIterator[Issuer]:
    """Runs an issuer, on a free port unless it is to succeed another."""
    async with listening("tests.live.security.issuer", str(port)) as (process, base), plainhttp.async_client() as http:
        yield Issuer(process, base, "main", http)


def main() -> None:
    """Serves until it is killed."""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"{LISTENING}http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
