"""An issuer for all tests of a file, and a site of its own for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.live.security.issuer import Issuer, issuer_process
from tests.live.security.key_sets.site import Site, numbers, watched
from tests.support.keys import jwk


@pytest.fixture(scope="module")
async def process(anyio_backend: object) -> AsyncIterator[Issuer]:
    async with issuer_process() as issuer:
        yield issuer


@pytest.fixture
async def site(process: Issuer) -> AsyncIterator[Site]:
    """An issuer with one key, called `one`; nothing has been fetched yet."""
    issuer = process.called(f"party{next(numbers)}")
    await issuer.publish(jwk("rsa", 0, kid="one"))
    async with watched(issuer) as site:
        yield site
