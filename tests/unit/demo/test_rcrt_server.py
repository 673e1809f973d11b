from __future__ import annotations

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


def token_of(server: httpx.Client, **more: Any) -> str:
    return str(server.post("/auth/token", json=IDENTITY | more).raise_for_status().json()["token"])


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


def test_a_token_ends_has_roles_and_may_stand_in_the_query(server: httpx.Client) -> None:
    def created(token: str) -> int:
        return server.post("/breadcrumbs", json=NOTE, headers={"Authorization": f"Bearer {token}"}).status_code

    assert created(token_of(server, ttl_sec=-1)) == 401
    assert created(token_of(server, roles=["subscriber"])) == 403
    assert created(token_of(server, roles=["curator"])) == 200
    token = token_of(server)
    for name in ("access_token", "token"):
        with connected_without_header(server) as other:
            assert other.post("/breadcrumbs", json=NOTE, params={name: token}).status_code == 200
            assert other.post("/breadcrumbs", json=NOTE, params={"other": token}).status_code == 401
    header = {"Authorization": "Basic x"}
    assert server.post("/breadcrumbs", json=NOTE, params={"token": token}, headers=header).status_code == 401
    assert server.post("/auth/token", json=IDENTITY | {"ttl_sec": "long"}).status_code == 422


def connected_without_header(server: httpx.Client) -> httpx.Client:
    return httpx.Client(base_url=server.base_url, trust_env=False)


def test_a_body_must_be_declared_as_json(server: httpx.Client) -> None:
    answered = server.post("/breadcrumbs", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answered.status_code, answered.headers["content-type"]) == (415, "text/plain; charset=utf-8")


def test_with_a_token_minting_asks_for_it() -> None:
    with connected(MODULE, "--token", "t0k") as server:
        assert server.post("/auth/token", json=IDENTITY).status_code == 401
        server.headers["Authorization"] = "Bearer t0k"
        for token in (token_of(server), "t0k"):
            assert server.post("/breadcrumbs", json=NOTE, headers={"Authorization": f"Bearer {token}"}).is_success


def test_a_change_replaces_members_if_the_version_is_the_expected_one(server: httpx.Client) -> None:
    path = f"/breadcrumbs/{server.post('/breadcrumbs', json=NOTE).json()['id']}"
    changed = server.patch(path, json={"tags": ["changed"]}, headers={"If-Match": '"1"'})
    assert (changed.status_code, changed.json()) == (200, {"ok": True})
    assert server.patch(path, json={"tags": []}, headers={"If-Match": "1"}).status_code == 412
    record = server.get(f"{path}/full").json()
    assert (record["tags"], record["context"], record["version"]) == (["changed"], NOTE["context"], 2)
    assert server.patch("/breadcrumbs/x", json={}).status_code == 500
