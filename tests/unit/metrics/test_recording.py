"""What is counted under which labels, and that no label comes from a caller."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.metrics import GaugeSample, families
from tests.support.scraping import KNOWN, made, scraped

pytestmark = pytest.mark.anyio


async def test_a_duration_is_in_every_bucket_from_its_own_on() -> None:
    """Prometheus: a bucket holds what is less than or equal to its bound."""
    metrics = made()
    for duration_s in (0.001, 0.00101, 1000.0):
        metrics.request("oxp", "list", 200, duration_s)
    found = await scraped(metrics)
    name = "toolgate_request_duration_seconds"
    labels = "dialect=oxp,le={},operation=list"
    buckets = [found[f"{name}_bucket{{{labels.format(bound)}}}"] for bound in ("0.001", "0.0025", "60.0", "+Inf")]
    assert buckets == [1, 2, 2, 3]
    assert found[f"{name}_count{{dialect=oxp,operation=list}}"] == 3


async def test_words_that_are_not_configured_are_counted_as_other() -> None:
    metrics = made()
    for number in range(100):
        word = f"word{number}"
        metrics.request(word, word, 299, 0.1, None, word, 1, 2)
        metrics.tool_call(word, word, word, 0.1, word)
        metrics.tool_call("mail", "Mail.Send", word, 0.1, "key:ci")
        metrics.quota_met(word, True)
        metrics.limit_used(word, 1.0)
        metrics.refused(word, word)
        metrics.auth_failure(word)
        metrics.rate_limited(word)
        metrics.callback(word, 299)
    found = await scraped(metrics)
    assert not any("word" in name for name in found)
    assert found["toolgate_requests_total{dialect=other,operation=other,status=2xx}"] == 100
    assert found["toolgate_tool_calls_total{backend=other,outcome=other,protocol=other,tool=other}"] == 100
    assert found["toolgate_account_calls_total{account=other,outcome=other}"] == 100
    assert found["toolgate_call_quotas_total{found=full,quota=other}"] == 100
    assert found["toolgate_rate_limit_used_ratio_bucket{le=0.99,rule=other}"] == 0
    assert found["toolgate_rate_limit_used_ratio_count{rule=other}"] == 100
    assert found["toolgate_account_bytes_total{account=other,direction=out}"] == 200
    assert found["toolgate_account_refusals_total{account=other,reason=other}"] == 100
    assert found["toolgate_auth_failures_total{reason=other}"] == 100
    assert found["toolgate_rate_limited_total{rule=other}"] == 100
    assert found["toolgate_callbacks_total{backend=other,outcome=other}"] == 100


async def test_words_that_become_known_later_are_counted_by_their_names_from_then_on() -> None:
    metrics = made()
    for known in (KNOWN, replace(KNOWN, rules=frozenset({"new"})), replace(KNOWN, reasons=frozenset({"new"}))):
        metrics.use_labels(known, max_tools=10)
        for _ in range(2):
            metrics.rate_limited("new")
            metrics.rate_limited("per-caller")
            metrics.auth_failure("new")
    found = await scraped(metrics)
    limited = [found[f"toolgate_rate_limited_total{{rule={rule}}}"] for rule in ("new", "per-caller", "other")]
    failed = [found[f"toolgate_auth_failures_total{{reason={reason}}}"] for reason in ("new", "other")]
    assert (limited, failed) == ([2, 4, 6], [2, 4])


async def test_only_so_many_tools_have_labels() -> None:
    metrics = made(max_tools=2)
    for _ in range(2):
        for name in ("A.a", "B.b", "C.c", "D.d"):
            metrics.tool_call("mail", name, "ok", 0.1, "key:ci")
    found = await scraped(metrics)
    calls = "toolgate_tool_calls_total{{backend=mail,outcome=ok,protocol=oxp,tool={}}}"
    assert {tool: found.get(calls.format(tool)) for tool in ("A.a", "B.b", "C.c", "D.d", "other")} == {
        "A.a": 2,
        "B.b": 2,
        "C.c": None,
        "D.d": None,
        "other": 4,
    }


async def test_the_tools_of_a_backend_that_is_called_other_have_labels() -> None:
    metrics = made()
    metrics.use_labels(replace(KNOWN, protocols={"other": "oxp"}), max_tools=10)
    metrics.tool_call("other", "A.a", "ok", 0.1, "key:ci")
    metrics.tool_call("gone", "B.b", "ok", 0.1, "key:ci")
    found = await scraped(metrics)
    assert found["toolgate_tool_calls_total{backend=other,outcome=ok,protocol=oxp,tool=A.a}"] == 1
    assert found["toolgate_tool_calls_total{backend=other,outcome=ok,protocol=other,tool=other}"] == 1


async def test_a_gauge_shows_what_is_so_now_and_vanishes_with_what_it_was_about() -> None:
    samples = [GaugeSample(families.IN_FLIGHT, ("mail",), 3.0), GaugeSample(families.STATE_UP, (), 1.0)]
    metrics = made(gauges=samples)
    assert (await scraped(metrics))["toolgate_calls_in_flight{backend=mail}"] == 3
    samples[:] = [GaugeSample(families.STATE_UP, (), 0.0)]
    found = await scraped(metrics)
    assert "toolgate_calls_in_flight{backend=mail}" not in found
    assert found["toolgate_state_up"] == 0
    samples.append(GaugeSample(families.IN_FLIGHT, ("mail",), 1.0))
    assert (await scraped(metrics))["toolgate_calls_in_flight{backend=mail}"] == 1
