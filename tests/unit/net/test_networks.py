"""Which callers count as one."""

from __future__ import annotations

import pytest

from gateway.net.networks import network


@pytest.mark.parametrize(
    ("ip", "counted_as"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::2", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),  # as a socket for both families sees it
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),  # a Unix socket
        ("no:address", "no:address"),
    ],
)
def test_one_host_counts_as_one_address(ip: str, counted_as: str) -> None:
    assert network(ip) == counted_as
