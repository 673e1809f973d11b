"""Faults as they are ordered: those of the manifest, and of invocations before anything is called back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.unit.demo.conftest import words_of_help
from tests.unit.demo.rap_caller import Caller
from tests.unit.demo.rap_faults.ordering import SPOILT, quick
from tests.unit.demo.test_rap_server import executions

TOOLSET = "/.well-known/rap-toolset"


def test_a_fault_happens_as_often_as_ordered(caller: Caller) -> None:
    caller.order("build", "ack_503", times=2)
    statuses = [caller.invoke(quick(caller)).status_code for _ in range(3)]
    assert statuses == [503, 503, 200]


def test_a_fault_waits_for_the_operation_it_was_ordered_for(caller: Caller) -> None:
    caller.order("build", "ack_400")
    assert caller.text_of("explode").startswith("Error: ")
    assert caller.invoke(quick(caller)).status_code == 400


def test_orders_can_be_forgotten(caller: Caller) -> None:
    caller.order("build", "ack_500", times=100)
    assert caller.server.delete("/faults").json()["due"] == []
    assert caller.invoke(quick(caller)).status_code == 200


@pytest.mark.parametrize(
    "order",
    [
        [],
        {},
        {"operation": "build", "fault": "unheard_of"},
        {"operation": "paint", "fault": "never"},
        {"operation": "manifest", "fault": "never"},
        {"operation": "build", "fault": "never", "times": 0},
        {"operation": "build", "fault": "never", "seconds": 3600},
        {"operation": "build", "fault": "never", "often": True},
    ],
)
def test_an_order_that_makes_no_sense_is_refused(caller: Caller, order: Any) -> None:
    assert caller.server.post("/faults", json=order).status_code == 400


REFUSALS = [302, 400, 409, 413, 422, 429, 500, 503]


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refused_invocation_does_not_run(caller: Caller, status: int) -> None:
    caller.order("build", f"ack_{status}")
    invocation = quick(caller)
    assert caller.invoke(invocation).status_code == status
    assert executions(caller.server, invocation["id"]) == 0


@pytest.mark.parametrize(
    ("fault", "status", "body"), [("ack_ok_body", 200, "OK"), ("ack_202", 202, ""), ("ack_204", 204, "")]
)
def test_an_unusual_acknowledgement_is_one_all_the_same(caller: Caller, fault: str, status: int, body: str) -> None:
    caller.order("build", fault)
    invocation = quick(caller)
    acknowledged = caller.invoke(invocation)
    assert (acknowledged.status_code, acknowledged.text) == (status, body)
    assert "built" in caller.callbacks(invocation)[0].message["text"]


def test_a_slow_acknowledgement_takes_its_time_and_the_work_comes_after_it(caller: Caller) -> None:
    caller.order("build", "slow_ack", seconds=0.3)
    invocation = quick(caller)
    started = time.monotonic()
    caller.invoke(invocation)
    assert caller.callbacks(invocation)[0].at - started >= 0.3


def test_the_callback_can_come_before_the_acknowledgement(caller: Caller) -> None:
    caller.order("build", "callback_before_ack")
    invocation = quick(caller)
    caller.invoke(invocation)
    assert len(caller.so_far(invocation)) == 1


@pytest.mark.parametrize(("fault", "runs"), [("reset_before_ack", 1), ("reset_and_drop", 0)])
def test_the_connection_can_break_before_the_acknowledgement(caller: Caller, fault: str, runs: int) -> None:
    caller.order("build", fault)
    invocation = quick(caller)
    with pytest.raises(httpx.TransportError):
        caller.invoke(invocation)
    assert executions(caller.server, invocation["id"]) == runs
    assert len(caller.callbacks(invocation, runs)) == runs


MANIFESTS: list[tuple[str, Callable[[Any], bool]]] = [
    ("no_tools", lambda manifest: manifest["tools"] == []),
    ("no_name", lambda manifest: manifest["name"] == ""),
    ("duplicate_names", lambda manifest: manifest["tools"][0] == manifest["tools"][-1]),
    ("missing_description", lambda manifest: "description" not in manifest["tools"][0]),
    ("missing_schema", lambda manifest: "inputSchema" not in manifest["tools"][0]),
    ("invalid_schema", lambda manifest: manifest["tools"][0]["inputSchema"] == {"type": "text"}),
    ("bad_endpoint", lambda manifest: "://" not in manifest["endpoint"]),
    ("foreign_endpoint", lambda manifest: manifest["endpoint"].startswith("http://localhost:")),
    ("changed_schema", lambda manifest: manifest["tools"][0]["inputSchema"] == {"type": "object"}),
    ("not_an_object", lambda manifest: isinstance(manifest, list)),
]


@pytest.mark.parametrize(("fault", "is_spoilt"), MANIFESTS, ids=[fault for fault, _ in MANIFESTS])
def test_a_manifest_can_be_spoilt(caller: Caller, fault: str, is_spoilt: Callable[[Any], bool]) -> None:
    caller.order("manifest", fault)
    assert is_spoilt(caller.server.get(TOOLSET).json())
    assert not is_spoilt(caller.server.get(TOOLSET).json())


@pytest.mark.parametrize(("fault", "status"), [("status_404", 404), ("status_500", 500)])
def test_a_manifest_can_be_refused(caller: Caller, fault: str, status: int) -> None:
    caller.order("manifest", fault)
    assert caller.server.get(TOOLSET).status_code == status


def test_a_manifest_can_be_no_json(caller: Caller) -> None:
    caller.order("manifest", "invalid_json")
    with pytest.raises(ValueError, match="Expecting"):
        caller.server.get(TOOLSET).json()


def test_a_manifest_can_be_slow(caller: Caller) -> None:
    caller.order("manifest", "slow", seconds=0.3)
    started = time.monotonic()
    assert caller.server.get(TOOLSET).json()["name"] == "Builds"
    assert time.monotonic() - started >= 0.3


def test_the_help_names_every_fault(rap: httpx.Client) -> None:
    known = rap.get("/faults").json()["known"]
    assert {fault for faults in known.values() for fault in faults} <= words_of_help("rap_server")


def test_every_fault_is_tested(rap: httpx.Client) -> None:
    known = rap.get("/faults").json()["known"]
    assert set(known["manifest"]) - {fault for fault, _ in MANIFESTS} == {
        "status_404",
        "status_500",
        "slow",
        "invalid_json",
    }
    alone = {
        "ack_ok_body", "ack_202", "ack_204", "slow_ack", "callback_before_ack", "reset_before_ack", "reset_and_drop",
        "delayed", "never", "duplicate", "two_different", "invalid_json", "wrong_token", "extra_authorization",
        "wrong_content_type", "no_retry", "view_update_storm", "still_running", "event_before_confirmation",
        "event_after_final", "ignore_cancel", "oauth_never_resolved", "result_first",
    }  # fmt: skip
    assert set(known["build"]) == alone | {f"ack_{status}" for status in REFUSALS} | {fault for fault, _ in SPOILT}
