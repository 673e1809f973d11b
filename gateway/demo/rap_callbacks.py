"""How a RAP tool server delivers its messages: to allowed callback URLs only, again after a 5xx, within limits.

Follows the Reactive Agent Protocol, Transport: Callbacks. A callback URL holds a token, so it is never written down.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import httpx

from gateway.demo.rap_calls import Invocation, Message
from gateway.demo.toolbox import JsonObject, RefusedError

MAX_ATTEMPTS = 6  # with the waits below: about 3 s of a caller that is down
FIRST_WAIT_S = 0.1  # doubles each time
ANSWER_WAIT_S = 5.0  # a callback endpoint only notes what it gets
CONNECT_WAIT_S = 2.0
MAX_CONNECTIONS = 100
MAX_RECORDS = 1000  # deliveries that are remembered, the latest


@dataclass(frozen=True)
class Delivery:
    """One message on its way. `kind` and `id` are for the records, whatever the body says."""

    kind: str
    id: str
    url: str = field(repr=False)
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    max_attempts: int = MAX_ATTEMPTS

    @classmethod
    def of(cls, call: Invocation, message: Message) -> Delivery:
        return cls(str(message.get("type")), call.id, call.callback_url, json.dumps(message).encode())


class Courier:
    """Posts messages; `origins` may be called back besides loopback. `records` says how each delivery ended."""

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = {_origin(httpx.URL(origin)) for origin in origins}
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(ANSWER_WAIT_S, connect=CONNECT_WAIT_S),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
            # Nobody vouches for loopback, and whom the world trusts takes longer to read than to import httpx.
            verify=any(scheme == "https" for scheme, *_ in self._origins) or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            follow_redirects=False,  # whoever may be called back must not send us elsewhere
            trust_env=False,
        )
        self.records: deque[JsonObject] = deque(maxlen=MAX_RECORDS)

    def check(self, callback_url: str) -> None:
        """The URL is the caller's word, and we are told to post to it. Raises RefusedError."""
        try:
            url = httpx.URL(callback_url)
        except httpx.InvalidURL:
            raise RefusedError("The callback_url is not a URL", status=403) from None
        allowed = _is_loopback(url.host) or _origin(url) in self._origins
        if url.scheme not in ("http", "https") or url.userinfo or not allowed:
            raise RefusedError("The callback_url is not allowed here", status=403)

    async def deliver(self, delivery: Delivery) -> None:
        """Tries until anything but a 5xx comes back; a 4xx is final (Transport, Callback Response)."""
        status: int | None = None
        for attempt in range(1, delivery.max_attempts + 1):
            if attempt > 1:
                await asyncio.sleep(FIRST_WAIT_S * 2 ** (attempt - 2))
            status = await self._post(delivery)
            if status is not None and status < 500:
                break
        self.records.append({"type": delivery.kind, "id": delivery.id, "attempts": attempt, "status": status})

    async def _post(self, delivery: Delivery) -> int | None:
        """The status of the answer, None without one; its body is not read."""
        headers = {"Content-Type": "application/json", **delivery.headers}
        try:
            async with self._client.stream("POST", delivery.url, content=delivery.body, headers=headers) as response:
                return response.status_code
        except httpx.TransportError:
            return None


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
