"""What a request is called: ids that are taken over, ids that are made, and what is sent on."""

from __future__ import annotations

import re
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.tracing import MAX_TRACESTATE, identify, random_digits

MADE = "".join(f"{number:02x}" for number in range(24))
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SPAN = MADE[32:]


def sent(**headers: str | bytes) -> dict[str, str]:
    """The headers that go to a tool server."""
    asked = {
        name.replace("_", "-").encode(): value if isinstance(value, bytes) else value.encode("latin-1")
        for name, value in headers.items()
    }
    trace = identify(repeat(MADE.encode()), asked)
    assert trace.sent[0] == (b"x-request-id", trace.request_id)
    return {name.decode(): value.decode() for name, value in trace.sent}


def test_both_are_made_where_there_are_none_and_lead_to_one_another() -> None:
    assert sent() == {"x-request-id": MADE[:32], "traceparent": f"00-{MADE[:32]}-{SPAN}-01"}


@pytest.mark.parametrize(
    "given", ["a", "A-z_0.9~:/+=@"[:13].replace("_", "-"), "x" * 128, "2b5c0e1e-6f0c-4ea5-a1b5-1c8d8f8f0d52"]
)
def test_a_request_id_of_harmless_characters_is_kept(given: str) -> None:
    assert sent(x_request_id=given)["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\n", "a,b", 'a"', "<a>", "a%0a", "\xe9", "a\0", "${jndi:x}"])
def test_any_other_is_replaced(given: str) -> None:
    assert sent(x_request_id=given)["x-request-id"] == MADE[:32]


def test_a_trace_goes_on_with_our_span_and_its_state() -> None:
    """Spec: Trace Context 2.2 and 3.4: the parent id is ours, trace id and sampled flag stay."""
    headers = sent(traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="congo=t61rcWkgMzE,rojo=1")
    assert headers == {
        "x-request-id": MADE[:32],
        "traceparent": f"00-{TRACE}-{SPAN}-01",
        "tracestate": "congo=t61rcWkgMzE,rojo=1",
    }


@pytest.mark.parametrize(("given", "kept"), [("00", "00"), ("01", "01"), ("03", "03"), ("ff", "03"), ("fc", "00")])
def test_flags_we_know_are_kept_and_others_cleared(given: str, kept: str) -> None:
    """Spec: Trace Context 3.2.2.5."""
    assert sent(traceparent=f"00-{TRACE}-{PARENT}-{given}")["traceparent"] == f"00-{TRACE}-{SPAN}-{kept}"


@pytest.mark.parametrize("end", ["", "-", "-what-the-future-will-be-like"])
def test_a_trace_of_a_later_version_goes_on_in_ours(end: str) -> None:
    """Spec: Trace Context 3.2.4, Versioning."""
    assert sent(traceparent=f"cc-{TRACE}-{PARENT}-01{end}")["traceparent"] == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "00",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-0x",
        f"cc-{TRACE}-{PARENT}-01.more",
        f"00-{TRACE}-{PARENT}-01\n",
        f" 00-{TRACE}-{PARENT}-01",
    ],
)
def test_a_trace_that_is_not_valid_is_begun_anew_and_its_state_is_not_passed_on(given: str) -> None:
    """Spec: Trace Context 3.2.2 and 3.3.1.4."""
    assert sent(traceparent=given, tracestate="a=1") == sent()


@pytest.mark.parametrize("state", ["", "x" * (MAX_TRACESTATE + 1), "a=\r\nb", "a=\xe9"])
def test_a_state_that_is_too_long_or_no_header_is_left_out(state: str) -> None:
    assert "tracestate" not in sent(traceparent=f"00-{TRACE}-{PARENT}-01", tracestate=state)


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=600))
def test_whatever_comes_what_is_sent_on_is_valid(request_id: bytes, parent: bytes, state: bytes) -> None:
    headers = sent(x_request_id=request_id, traceparent=parent, tracestate=state)
    assert re.fullmatch(r"[A-Za-z0-9._~:/+=@-]{1,128}", headers["x-request-id"])
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]", headers["traceparent"])


def test_no_two_requests_are_made_the_same_name() -> None:
    chance = random_digits()
    names = {identify(chance, {}) for _ in range(1000)}
    assert len({name.request_id for name in names}) == len({name.sent[1] for name in names}) == 1000
