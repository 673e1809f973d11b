"""Limits as a file has them: read, assembled, asked."""

from __future__ import annotations

import pytest

from gateway.assembly import factories
from gateway.core.ports import Target
from gateway.ratelimit import RateLimited
from gateway.settings.load import read
from gateway.settings.warnings import warnings

pytestmark = pytest.mark.anyio

FILE = """
auth: none
backends:
  search: {protocol: otc, url: 'http://127.0.0.1:9'}
  mail: {protocol: otc, url: 'http://127.0.0.1:9'}
routes:
  - {tools: 'Search.*', backend: search}
  - {tools: '*', backend: mail}
rate_limits:
  - {name: per-caller, key: caller, rate: 50/s, burst: 100}
  - {name: dear, key: tool + caller, tools: ['Search.*'], rate: 2/m}
  - {name: mail, key: route, backends: [mail], rate: 1000/h}
  - {name: polls, key: caller, rate: 3/d, operations: [poll]}
  - {name: addresses, key: ip, rate: 60/m, operations: [call, list, poll]}
"""
SEARCH = Target("Search.Web", "1.0.0", "search", "search/Search.*")
MAIL = Target("Mail.Send", "1.0.0", "mail", "mail/*")


async def test_configured_limits_apply_to_the_requests_they_name() -> None:
    limits = factories.rate_limits(read(FILE), lambda rule, share: None)
    policies = {
        "early": limits.admit("call", "10.0.0.1")[0][1],
        "search": (await limits.spend("call", "key:a", "10.0.0.1", SEARCH))[0][1],
        "mail": (await limits.spend("call", "key:a", "10.0.0.1", MAIL))[0][1],
        "list": (await limits.spend("list", "key:a", "10.0.0.1", None))[0][1],
        "poll": (await limits.spend("poll", "key:a", "10.0.0.1", None))[0][1],
    }
    assert policies == {
        "early": b'"addresses";q=60;w=60',
        "search": b'"per-caller";q=100;w=2, "dear";q=2;w=60',
        "mail": b'"per-caller";q=100;w=2, "mail";q=1000;w=3600',
        "list": b'"per-caller";q=100;w=2',
        "poll": b'"polls";q=3;w=86400',
    }
    await limits.spend("call", "key:a", "10.0.0.1", SEARCH)
    with pytest.raises(RateLimited) as caught:
        await limits.spend("call", "key:a", "10.0.0.2", SEARCH._replace(version="2.0.0"))
    assert (caught.value.reason, caught.value.retry_after_s) == ("dear", 30)
    await limits.spend("call", "key:b", "10.0.0.1", SEARCH)


def test_the_default_burst_is_the_count_of_the_rate() -> None:
    limits = {limit.name: limit.at_once for limit in read(FILE).rate_limits}
    assert limits == {"per-caller": 100, "dear": 2, "mail": 1000, "polls": 3, "addresses": 60}
    (fast,) = read("auth: none\nrate_limits: [{name: a, key: ip, rate: 60000000/m}]").rate_limits
    assert fast.at_once == 1_000_000


QUOTAS = """
auth: none
rate_limits:
  - {name: daily, key: caller, rate: 10000/day}
  - {name: monthly, key: ip+caller, rate: 3000000/month}
  - {name: address, key: ip, rate: 9/month}
  - {name: sliding, key: caller, rate: 9/d}
"""
REDIS = "state: {url: 'redis://localhost', keys: [a key of at least thirty-two characters]}"
ALONE = "counts the {}'s requests anew with each start, in each process by itself: state.{} is not set"
BY_ADDRESS = "address counts the month's requests of an address in each process by itself, and anew with each start"


@pytest.mark.parametrize(
    ("state", "lacking"), [("", "url"), ("state: {url: 'redis://localhost'}", "keys"), (REDIS, None)]
)
def test_a_quota_that_is_not_exact_is_warned_of(state: str, lacking: str | None) -> None:
    quotas = {"daily": "day", "monthly": "month"}
    alone = [f"{name} {ALONE.format(window, lacking)}" for name, window in quotas.items() if lacking]
    found = [warning.removeprefix("rate_limits: ") for warning in warnings(read(QUOTAS + state)) if "count" in warning]
    assert found == [*alone, BY_ADDRESS]


async def test_a_configured_quota_is_that_of_the_calendar() -> None:
    limits = factories.rate_limits(read(QUOTAS), lambda rule, share: None)
    assert dict(await limits.spend("list", "key:a", "10.0.0.1", None))[b"ratelimit-policy"] == (
        b'"daily";q=10000;w=86400, "monthly";q=3000000;w=2678400, "sliding";q=9;w=86400'
    )


@pytest.mark.parametrize("tools", ["${env:ANY}", "Mail.*"])
def test_a_pattern_is_accepted_if_a_route_may_have_such_tools(tools: str) -> None:
    text = (
        "auth: none\nbackends: {a: {protocol: otc, url: 'http://x'}}\n"
        "routes: [{tools: '${env:ANY}', backend: a}]\n"
        f"rate_limits: [{{name: a, key: ip, rate: 1/s, tools: ['{tools}']}}]\n"
    )
    assert read(text, env={"ANY": "Any.*"}).rate_limits
    assert read(text, env={}, allow_missing_env=True).rate_limits
