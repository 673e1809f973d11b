"""Where Redis is, read from a URL: one server, or the sentinels of one."""

from __future__ import annotations

import pytest

from gateway.redisclient.address import RedisAddress

ADDRESSES = [
    ("redis://localhost", "redis://localhost:6379/0"),
    ("redis://localhost/", "redis://localhost:6379/0"),
    ("rediss://u:p@redis.example.com:6380/7", "rediss://redis.example.com:6380/7"),
    ("redis://[::1]/3", "redis://[::1]:6379/3"),
    ("redis+sentinel://a/main", "redis+sentinel://a:26379/main/0"),
    ("redis+cluster://a", "redis+cluster://a:6379"),
    ("rediss+cluster://u:p@a,b:1,[::1]:3/", "rediss+cluster://a:6379,b:1,[::1]:3"),
    ("rediss+sentinel://:p@a:1,b,[::1]:3/main.x-1/2", "rediss+sentinel://a:1,b:26379,[::1]:3/main.x-1/2"),
]


@pytest.mark.parametrize(("url", "shown"), ADDRESSES)
def test_an_address_is_shown_whole_but_for_user_and_password(url: str, shown: str) -> None:
    assert repr(RedisAddress.parse(url)) == shown
    assert f"{RedisAddress.parse(url)}" == shown


def test_an_address_has_the_parts_of_its_url() -> None:
    address = RedisAddress.parse("rediss+sentinel://me:p%2Fw%40x@a:1,[::1]/main/2")
    assert (address.hosts, address.is_tls, address.service) == ((("a", 1), ("::1", 26379)), True, "main")
    assert (address.database, address.user, address.password) == (2, "me", "p/w@x")


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("redis://h", None, None),
        ("redis://:p@h", None, "p"),
        ("redis://u@h", "u", None),
        ("redis://u:p:q@h", "u", "p:q"),
    ],
)
def test_user_and_password_may_each_be_left_out(url: str, user: str | None, password: str | None) -> None:
    address = RedisAddress.parse(url)
    assert (address.user, address.password) == (user, password)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "unix:///run/redis.sock",
        "redis://",
        "redis://a,b/0",
        "redis://a:0",
        "redis://a:65536",
        "redis://a/x",
        "redis://a/0?db=1",
        "redis://p/w@a",
        "redis://a\n",
        "redis+cluster://a/0",
        "redis+cluster://",
        "redis+cluster://a,,b",
        "redis+cluster://" + ",".join("n" * 65),
        "redis+sentinel://a",
        "redis+sentinel://a/",
        "redis+sentinel://a/0",  # a database whose service was left out
        "redis+sentinel://a,/main",
        "redis+sentinel://a/main/x",
        "redis+sentinel://" + ",".join("abcdefghijklmnopq") + "/main",
    ],
)
def test_an_invalid_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(is not the address|has a port|names more than)") as caught:
        RedisAddress.parse(url)
    assert not url or url not in str(caught.value)
