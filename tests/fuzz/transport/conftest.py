"""What every fuzz of the transport needs: an authority both ends trust."""

from __future__ import annotations

import ssl

import pytest
import trustme

from tests.fuzz.transport.rounds import NAME, Contexts


@pytest.fixture(scope="session")
def contexts() -> Contexts:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(NAME).configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return Contexts(server, trusting)
