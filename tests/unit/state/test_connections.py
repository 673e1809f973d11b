"""What the gateway uses of redis-py beyond its documentation: a library without it is refused by name."""

from __future__ import annotations

import pytest
from redis.asyncio import SSLConnection
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

from gateway.state.address import Address
from gateway.state.connections import check_library, connect


class Changed:
    """A class of the library that has lost a parameter."""

    def disconnect(self) -> None: ...


@pytest.mark.parametrize(("method", "parameters"), [("can_read", ()), ("disconnect", ("nowait",))])
def test_a_library_that_lacks_a_method_or_a_parameter_is_refused_and_the_error_names_it(
    method: str, parameters: tuple[str, ...]
) -> None:
    with pytest.raises(ImportError, match=rf"^redis [0-9.]+ cannot be used, Changed\.{method}\(.*\) is missing"):
        check_library([(Changed, method, parameters)])


def test_a_tls_connection_uses_the_context_that_it_is_given() -> None:
    pool = connect(Address.parse("rediss://localhost")).connection_pool
    connection = pool.make_connection()  # type: ignore[no-untyped-call]
    assert isinstance(connection, SSLConnection)
    assert connection._connection_arguments()["ssl"] is pool.connection_kwargs["context"]


@pytest.mark.anyio
async def test_a_pool_asks_our_sentinels_for_the_primary() -> None:
    redis = connect(Address.parse("redis+sentinel://localhost:1/main"))
    pool = redis.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    assert type(pool.sentinel_manager).discover_master is not Sentinel.discover_master
    assert [sentinel.connection_pool.connection_kwargs["port"] for sentinel in pool.sentinel_manager.sentinels] == [1]
    await redis.aclose()
