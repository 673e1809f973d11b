"""Where callers and tool servers reach the gateway."""

from __future__ import annotations

from gateway.settings import ServerSettings


class PublicAddress:
    """The public URLs of a gateway: as configured, or by the address that it listens on."""

    def __init__(self, server: ServerSettings) -> None:
        self.listening = server.host, server.port  # host and port of the listener for callers
        self._server = server

    def change(self, server: ServerSettings) -> None:
        """Takes the URLs of another configuration."""
        self._server = server

    def listens_on(self, host: str, port: int) -> None:
        """Sets the address that the listener was bound to."""
        self.listening = host, port

    def public_url(self) -> str:
        """Where callers reach the gateway, without a slash at its end."""
        if self._server.public_url:
            return self._server.public_url
        host, port = self.listening
        scheme = "http" if self._server.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def callback_url(self) -> str:
        """Where tool servers send results, without a slash at its end."""
        return self._server.callback_url or self.public_url()
