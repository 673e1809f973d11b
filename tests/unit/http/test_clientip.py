"""The address of a caller, which no caller can choose."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.clientip import ClientIps, peer

PROXY, OUTER = "10.0.0.1", "10.0.0.2"
ips = ClientIps([ip_network("10.0.0.0/8"), ip_network("fd00::/8")])


def asked(host: str, *headers: tuple[str, str]) -> dict[str, object]:
    """An ASGI scope with that peer."""
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "client": (host, 1234), "headers": encoded}


PEERS = [
    ("192.0.2.7", "192.0.2.7"),
    ("::ffff:192.0.2.7", "192.0.2.7"),  # a socket for both families
    ("2001:DB8:0:0::1", "2001:db8::1"),
    ("fe80::1%eth0", "fe80::1"),
    ("a unix socket", "a unix socket"),
]


@pytest.mark.parametrize(("host", "ip"), PEERS)
def test_the_peer_has_one_form(host: str, ip: str) -> None:
    assert peer(asked(host)) == ip
    assert ips(asked(host, ("x-forwarded-for", "203.0.113.1"))) == ip


def test_without_a_peer_there_is_no_address() -> None:
    assert peer({"type": "http", "headers": []}) == ""
    assert ips({"type": "http", "client": None, "headers": [(b"x-forwarded-for", b"203.0.113.1")]}) == ""


CHAINS = [
    ("203.0.113.1", "203.0.113.1"),
    ("198.51.100.9, 203.0.113.1", "203.0.113.1"),  # the left one is what the caller said
    ("198.51.100.9, 203.0.113.1, 10.0.0.2", "203.0.113.1"),
    ("198.51.100.9 ,203.0.113.1\t, 10.0.0.2", "203.0.113.1"),
    ("10.0.0.3, 10.0.0.2", "10.0.0.3"),  # a caller of our own network
    ("203.0.113.1:4711", "203.0.113.1"),
    ("[2001:DB8::1]:4711", "2001:db8::1"),
    ("[2001:db8::1]", "2001:db8::1"),
    ("[203.0.113.1]", "203.0.113.1"),  # needless, but clear
    ("2001:db8:0:0:0:0:0:1", "2001:db8::1"),
    ("::ffff:203.0.113.1", "203.0.113.1"),
    ("::ffff:10.0.0.9", "10.0.0.9"),
    ("fe80::1%eth0", "fe80::1"),
    ("203.0.113.1, fd00::7", "203.0.113.1"),
    # What is no address ends the way: the nearest that is known stands.
    ("203.0.113.1, unknown", PROXY),
    ("203.0.113.1, unknown, 10.0.0.2", OUTER),
    ("", PROXY),
    (",", PROXY),
    ("203.0.113.1, ", PROXY),
    ("203.0.113.256", PROXY),
    ("0203.0.113.1", PROXY),
    ("203.0.113.1/32", PROXY),
    ("localhost", PROXY),
    ("203.0.113.1\r\nX-Evil: 1", PROXY),
    ("1" * 5000, PROXY),
]


@pytest.mark.parametrize(("chain", "ip"), CHAINS)
def test_a_trusted_proxy_names_the_right_most_caller_that_is_no_proxy(chain: str, ip: str) -> None:
    assert ips(asked(PROXY, ("x-forwarded-for", chain))) == ip


def test_lines_of_one_header_are_one_list() -> None:
    lines = [("x-forwarded-for", "198.51.100.9, 203.0.113.1"), ("x-forwarded-for", OUTER)]
    assert ips(asked(PROXY, *lines)) == "203.0.113.1"


FORWARDED = [
    ("for=203.0.113.1", "203.0.113.1"),
    ('For="203.0.113.1:4711";proto=https;by=10.0.0.1', "203.0.113.1"),
    ('proto=https; for="[2001:db8::1]:4711"', "2001:db8::1"),
    ("for=198.51.100.9, for=203.0.113.1, for=10.0.0.2", "203.0.113.1"),
    ("for=203.0.113.1, for=_hidden", PROXY),
    ("for=203.0.113.1, for=unknown, for=10.0.0.2", OUTER),
    ("for=203.0.113.1, proto=https", PROXY),
    ('for="203.0.113.1', PROXY),
    ("xfor=203.0.113.1", PROXY),
]


@pytest.mark.parametrize(("value", "ip"), FORWARDED)
def test_forwarded_says_the_same_in_its_own_words(value: str, ip: str) -> None:
    assert ips(asked(PROXY, ("forwarded", value))) == ip


def test_a_header_that_the_proxy_only_lets_pass_does_not_count() -> None:
    both = [("x-forwarded-for", "198.51.100.9"), ("forwarded", "for=203.0.113.1")]
    assert ips(asked(PROXY, *both)) == PROXY
    agreeing = [("x-forwarded-for", "203.0.113.1"), ("forwarded", "for=203.0.113.1")]
    assert ips(asked(PROXY, *agreeing)) == "203.0.113.1"


def test_a_chain_without_end_is_not_followed_without_end() -> None:
    assert ips(asked(PROXY, ("x-forwarded-for", "203.0.113.1" + ", 10.0.0.2" * 5000))) == OUTER


@given(st.text(st.characters(max_codepoint=255)), st.booleans())
def test_whatever_a_caller_writes_on_the_left_changes_nothing(said: str, in_one_line: bool) -> None:
    ours = "203.0.113.1"
    lines = (
        [("x-forwarded-for", f"{said},{ours}")]
        if in_one_line
        else [("x-forwarded-for", said), ("x-forwarded-for", ours)]
    )
    assert ips(asked(PROXY, *lines)) == ours


@given(st.text(st.characters(max_codepoint=255)), st.sampled_from(["x-forwarded-for", "forwarded"]))
def test_an_address_is_an_address_or_the_peers_whatever_the_header_holds(said: str, name: str) -> None:
    found = ips(asked(PROXY, (name, said)))
    assert found == PROXY or ip_network(found)
