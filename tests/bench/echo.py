"""The measure of all ratios: the least an ASGI server does for one POST. Runs under stock uvicorn, or granian.

`python -m tests.bench.echo PORT` runs it on the gateway's own server, which it answers as the gateway does: at once,
without messages.
"""

from __future__ import annotations

import sys
from typing import Any


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the whole body and sends it back."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    length = str(len(body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def direct(scope: Any, receive: Any, send: Any) -> None:
    """The same by what our own server offers beyond ASGI."""
    served = scope["extensions"]["toolgate.served"]
    body = served.take_body("")
    if body is None or not served.answer(200, ((b"content-type", b"application/json"),), body):
        await app(scope, receive, send)


def main(port: int) -> None:
    """Serves until a signal."""
    from gateway.net.server import Listener, ServerOptions, Service, main_loop, run

    options = ServerOptions(
        host="127.0.0.1",
        port=port,
        admin_host="127.0.0.1",
        admin_port=0,
        max_head_bytes=16 * 1024,
        max_connections=2048,
        head_timeout_s=10.0,
        body_timeout_s=30.0,
        idle_timeout_s=75.0,
        shutdown_grace_s=1.0,
    )
    main_loop(run(Listener(options), Service(app=direct), app, on_ready=lambda addresses: None))


if __name__ == "__main__":
    main(int(sys.argv[1]))
