"""The HTTP/1.1 server: an ASGI server with the limits and the strictness that a public listener needs."""

from gateway.net.server.listener import Listener, Service
from gateway.net.server.options import Addresses, ListenError, ServerError, ServerOptions
from gateway.net.server.run import (
    Stop,
    admin_listener,
    listen,
    main_loop,
    most_connections,
    report_capacity,
    run,
    serve,
)
from gateway.net.server.tls import ServingContext, TlsFiles

__all__ = [
    "Addresses",
    "ListenError",
    "Listener",
    "ServerError",
    "ServerOptions",
    "Service",
    "ServingContext",
    "Stop",
    "TlsFiles",
    "admin_listener",
    "listen",
    "main_loop",
    "most_connections",
    "report_capacity",
    "run",
    "serve",
]
