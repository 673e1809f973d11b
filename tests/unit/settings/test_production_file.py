"""The configuration for production, which people copy: what it must not leave open."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import Config
from gateway.settings.load import load

FILE = Path(__file__).parents[3] / "config/production.yaml"


@pytest.fixture(scope="module")
def config() -> Config:
    return load(FILE, env={}, allow_missing_env=True)


def test_every_call_needs_a_credential_and_a_scope(config: Config) -> None:
    assert config.auth is not None
    assert config.auth.jwt
    assert all(issuer.audience and issuer.max_lifetime_s for issuer in config.auth.jwt)
    published = [route for route in config.routes if not route.deny]
    assert published
    assert all(route.scopes and route.tools != "*" for route in published)


def test_addresses_callers_polls_and_guesses_are_limited(config: Config) -> None:
    limits = {(limit.key, operation) for limit in config.rate_limits for operation in limit.operations}
    assert limits >= {
        (("ip",), "call"),
        (("caller",), "call"),
        (("caller",), "list"),
        (("caller",), "poll"),
        (("ip",), "failed_verification"),
    }
    assert config.server.trusted_proxies
    assert config.server.allowed_hosts


def test_replicas_share_what_they_remember_over_tls_and_sealed(config: Config) -> None:
    assert config.state is not None
    assert config.state.address is not None
    assert config.state.keys
    assert not config.state.insecure
    assert "url: rediss://" in FILE.read_text()


def test_tool_servers_are_reached_over_https_and_know_who_asks(config: Config) -> None:
    for backend in config.backends.values():
        assert all(url.startswith("https://") for url in backend.addresses)
        assert backend.auth is not None


def test_no_secret_is_written_into_it() -> None:
    words = ("secret", "bearer", "hash", "keys", "password")
    lines = [line.partition("#")[0] for line in FILE.read_text().splitlines()]
    for line in lines:
        for word in words:
            _, _, value = line.partition(f"{word}: ")
            assert not value.strip() or "${" in value, line
