"""A gateway behind its public listener, and how both apply another configuration."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from gateway.app import Gateway
from gateway.console.view import View
from gateway.http.accesslog import AccessLog
from gateway.http.clientip import peer
from gateway.logs import output
from gateway.net.server import (
    Addresses,
    Listener,
    ServerError,
    ServerOptions,
    Service,
    ServingContext,
    TlsFiles,
    most_connections,
    run,
)
from gateway.settings import Config, ServerSettings


def server_options(config: Config, tls: ssl.SSLContext | None) -> ServerOptions:
    """The options of a server that serves callers over `tls`, or plainly."""
    server = config.server
    return ServerOptions(
        host=server.hosts,
        port=server.port,
        admin_host=server.admin.hosts,
        admin_port=server.admin.port,
        max_head_bytes=server.max_head_bytes,
        max_connections=most_connections(server.max_connections),
        head_timeout_s=server.head_timeout_s,
        body_timeout_s=server.body_timeout_s,
        idle_timeout_s=server.idle_timeout_s,
        drain_delay_s=server.drain_delay_s,
        shutdown_grace_s=server.shutdown_grace_s,
        tls=tls,
    )


def serving_context(server: ServerSettings) -> ServingContext | None:
    """What the listener presents for https; None serves plain http. Raises ServerError for files it cannot use."""
    tls = server.tls
    if tls is None:
        return None
    files = TlsFiles(cert=tls.cert, key=tls.key, client_ca=tls.client_ca, requires_client=tls.require_client_cert)
    return ServingContext(files)


class Serving:
    """A gateway with its listener, in one process; `who` says in its log which of several that is."""

    def __init__(
        self,
        config: Config,
        who: Mapping[str, int] | None = None,
        *,
        file: Path | None = None,
        view: View | None = None,
    ) -> None:
        """`file` is that of the configuration; `view` answers the console of several processes.

        Raises ServerError when a file that it names cannot be used."""
        self._who = who
        lines = output.configure(config.logging.level, config.logging.format, who)
        self._access = AccessLog(lines, config.logging.format)
        self.options = server_options(config, serving_context(config.server))
        self.listener = Listener(self.options)
        try:
            self.gateway = Gateway(config, access=self._access, file=file, listener=self.listener, view=view)
        except OSError as exc:  # ssl.SSLError is one; they were good when the configuration was read
            raise ServerError(
                f"The certificates of a backend or of state cannot be used: {exc.strerror or exc}."
            ) from exc
        gateway, observer = self.gateway, self.gateway.observer
        self.service = Service(
            app=gateway.public,
            refused=lambda why, request_id, client: observer.turned_away(
                why.status, why.reason, request_id=request_id, client=peer({"client": client})
            ),
            handshake_failed=partial(observer.turned_away, 0, operation="handshake"),
            is_awaiting=gateway.callbacks.are_awaited,
            is_awaited=gateway.callbacks.is_path,
            holder_of=gateway.ip_of,
            on_stop=gateway.turn_away,
            on_drain=gateway.drain,
        )

    async def run(self, on_ready: Callable[[Addresses], None]) -> None:
        """Listens for callers and operators until a signal ends it. Raises ServerError."""

        def listening(addresses: Addresses) -> None:
            self.gateway.address.listens_on(*addresses.public)
            on_ready(addresses)

        await run(self.listener, self.service, self.gateway.admin, on_ready=listening)

    async def apply(self, config: Config) -> None:
        """Applies another configuration. If it raises, nothing has changed."""
        tls = self.options.tls
        # The certificates are read first, so that nothing has changed when they cannot be used, and only once, because
        # the files may change meanwhile. They are those of the new configuration: the old ones may be gone.
        renewed = None if tls is None else serving_context(config.server)
        logging = self.gateway.config.logging
        await self.gateway.apply(config)
        now = self.gateway.config
        if isinstance(tls, ServingContext) and renewed is not None:
            tls.take(renewed)
        self.options = server_options(now, tls)  # the same context, because the listening sockets hold it
        self.listener.change(self.options)
        if now.logging != logging:
            lines = output.configure(now.logging.level, now.logging.format, self._who)
            self._access.write_to(lines, now.logging.format)
