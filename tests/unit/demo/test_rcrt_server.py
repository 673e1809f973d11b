from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.terminal import connected

MODULE = "gateway.demo.rcrt_server"
IDENTITY = {"owner_id": "00000000-0000-0000-0000-000000000001", "agent_id": "6f1c2b9e-4a0d-4e0e-9d0b-2f6f0a1b7c11"}
NOTE: dict[str, Any] = {"schema_name": "note.v1", "title": "a note", "tags": ["note"], "context": {"text": "hi"}}


@pytest.fixture(scope="module")
def server() -> Iterator[httpx.Client]:
    with connected(MODULE) as server:
        server.headers["Authorization"] = f"Bearer {token_of(server)}"
        yield server


def token_of(server: httpx.Client, **more: str) -> str:
    return str(server.post("/auth/token", json=IDENTITY | more).raise_for_status().json()["token"])


def created(server: httpx.Client, **more: Any) -> str:
    return str(server.post("/breadcrumbs", json=NOTE | more).raise_for_status().json()["id"])


def test_a_token_request_must_have_two_uuids(server: httpx.Client) -> None:
    wrongs: list[Any] = [IDENTITY | {"owner_id": "me"}, {"owner_id": IDENTITY["owner_id"]}, []]
    for wrong in wrongs:
        answered = server.post("/auth/token", json=wrong)
        assert (answered.status_code, answered.headers["content-type"]) == (400, "text/plain; charset=utf-8")


def test_an_unknown_token_is_refused_and_a_list_needs_none(server: httpx.Client) -> None:
    stranger = {"Authorization": "Bearer no.token"}
    for method, path in (("POST", "/breadcrumbs"), ("GET", "/events/stream"), ("DELETE", "/breadcrumbs/x")):
        assert server.request(method, path, json=NOTE, headers=stranger).status_code == 401
    assert server.get("/breadcrumbs", headers=stranger).status_code == 200


def test_an_idempotency_key_can_be_used_once(server: httpx.Client) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    assert server.post("/breadcrumbs", json={"title": 7}, headers=key).status_code == 422
    assert server.post("/breadcrumbs", json=NOTE, headers=key).status_code == 200
    answered = server.post("/breadcrumbs", json=NOTE, headers=key)
    assert (answered.status_code, answered.text) == (409, "duplicate idempotency key")


def test_the_list_has_the_latest_first_and_lacks_what_was_deleted(server: httpx.Client) -> None:
    first, second, third = (created(server, tags=["listed"]) for _ in range(3))
    assert server.delete(f"/breadcrumbs/{second}").json() == {"ok": True}
    listed = server.get("/breadcrumbs", params={"tag": "listed", "limit": "2"}).json()
    assert [crumb["id"] for crumb in listed] == [third, first]
    assert server.get(f"/breadcrumbs/{second}/full").status_code == 404


def test_a_stream_begins_with_a_ping_and_has_the_small_events_of_its_own_tenant(server: httpx.Client) -> None:
    stranger = {"Authorization": f"Bearer {token_of(server, owner_id=str(uuid.uuid4()))}"}
    with server.stream("GET", "/events/stream") as response:
        lines = (json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line)
        assert next(lines) == {"type": "ping"}
        server.post("/breadcrumbs", json=NOTE, headers=stranger).raise_for_status()
        created(server, context="x" * 1_100_000)  # beyond what the broker of the real server carries
        small = created(server)
        event = next(line for line in lines if line["type"] != "ping")
        assert (event["breadcrumb_id"], event["context"], event["version"]) == (small, NOTE["context"], 1)


def test_with_a_token_minting_asks_for_it() -> None:
    with connected(MODULE, "--token", "t0k") as server:
        assert server.post("/auth/token", json=IDENTITY).status_code == 401
        server.headers["Authorization"] = "Bearer t0k"
        for token in (token_of(server), "t0k"):
            assert server.post("/breadcrumbs", json=NOTE, headers={"Authorization": f"Bearer {token}"}).is_success
