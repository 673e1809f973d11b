"""What of a configuration that is read again takes effect, and what of the one that runs stays."""

from __future__ import annotations

import pytest

from gateway.assembly.setup import with_fixed
from gateway.config import read
from gateway.errors import ConfigError

CALLS_BACK = "backends: {builds: {protocol: callback, url: 'http://127.0.0.1:1'}}"


def test_the_address_stays_and_the_rest_is_new() -> None:
    running = read("server: {host: 0.0.0.0, port: 1, max_body: 1KiB}\nauth: none\n")
    now = with_fixed(read("server: {host: 127.0.0.1, port: 2, max_body: 2KiB}\nauth: none\n"), running)
    assert (now.server.host, now.server.port, now.server.max_body_bytes) == ("0.0.0.0", 1, 2048)


def test_what_is_good_only_at_the_next_start_is_refused() -> None:
    """It says where to call back by the address it will listen on; nobody can call back to the one it does."""
    running = read("server: {host: 0.0.0.0}\nauth: none\n")
    again = read(f"server: {{host: 127.0.0.1}}\nauth: none\n{CALLS_BACK}\n")
    with pytest.raises(ConfigError, match=r"callback_url or public_url.*before the next start it cannot be used"):
        with_fixed(again, running)
    told = read(f"server: {{host: 127.0.0.1, callback_url: 'http://gateway.example'}}\nauth: none\n{CALLS_BACK}\n")
    assert with_fixed(told, running).backends == told.backends
