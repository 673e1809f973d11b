from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest

from tests import plainhttp
from tests.unit.demo.conftest import DEADLINE_S, connected, running
from tests.unit.demo.rcrt_caller import AGENT_ID, OWNER_ID, Caller, calling

NOTE: dict[str, Any] = {"schema_name": "note.v1", "title": "a note", "tags": ["note"], "context": {"text": "hi"}}


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with calling("--ping-s", "0.1") as caller:
        yield caller


@pytest.fixture(scope="module")
def stranger(caller: Caller) -> Iterator[httpx.Client]:
    """The same server without a token."""
    with plainhttp.client(base_url=caller.server.base_url, timeout=DEADLINE_S) as client:
        yield client


def created(caller: Caller, **more: Any) -> str:
    return str(caller.server.post("/breadcrumbs", json={**NOTE, **more}).raise_for_status().json()["id"])


def is_text(answered: httpx.Response, status: int) -> bool:
    return answered.status_code == status and answered.headers["content-type"].startswith("text/plain")


def test_anybody_gets_a_token_for_any_identity(stranger: httpx.Client) -> None:
    identity = {"owner_id": OWNER_ID, "agent_id": AGENT_ID, "roles": ["emitter"], "ttl_sec": 60}
    minted = stranger.post("/auth/token", json=identity).json()
    assert set(minted) == {"token", "owner_id", "agent_id", "roles", "exp"}
    assert abs(minted["exp"] - time.time() - 60) < DEADLINE_S
    claims = jwt.decode(minted["token"], options={"verify_signature": False})
    assert (claims["sub"], claims["owner_id"], claims["roles"]) == (AGENT_ID, OWNER_ID, ["emitter"])
    assert jwt.get_unverified_header(minted["token"])["alg"] == "RS256"


def test_a_token_request_must_have_two_uuids(caller: Caller) -> None:
    assert caller.mint(owner_id="me").text == "invalid owner_id format"
    assert is_text(caller.mint(agent_id="me"), 400)
    assert is_text(caller.mint(agent_id=None), 422)
    assert is_text(caller.mint(ttl_sec="1h"), 422)


def test_the_token_goes_into_the_header_or_the_query(caller: Caller, stranger: httpx.Client) -> None:
    token = caller.mint().json()["token"]
    path = f"/breadcrumbs/{created(caller)}/full"
    assert stranger.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert stranger.get(path, params={"access_token": token}).status_code == 200
    assert stranger.get(path, params={"token": token}).status_code == 200
    wrong = stranger.get(path, params={"token": token}, headers={"Authorization": "Basic eDp5"})
    assert (wrong.status_code, wrong.text) == (401, "invalid Authorization header")
    assert stranger.get(path).text == "missing Authorization"


def test_a_token_that_is_expired_or_forged_is_refused(caller: Caller, stranger: httpx.Client) -> None:
    forged = jwt.encode({"sub": AGENT_ID, "owner_id": OWNER_ID, "roles": []}, "k" * 32, algorithm="HS256")
    for token in (caller.mint(ttl_sec=-120).json()["token"], forged, "no.token"):
        answered = stranger.get("/secrets", headers={"Authorization": f"Bearer {token}"})
        assert is_text(answered, 401)
        assert answered.text.startswith("invalid token: ")


def test_only_emitters_and_curators_create(caller: Caller, stranger: httpx.Client) -> None:
    for roles in ([], ["subscriber"]):
        subscriber = {"Authorization": f"Bearer {caller.mint(roles=roles).json()['token']}"}
        answered = stranger.post("/breadcrumbs", json=NOTE, headers=subscriber)
        assert (answered.status_code, answered.text) == (403, "emitter role required")
    assert stranger.get(f"/breadcrumbs/{created(caller)}", headers=subscriber).status_code == 200


def test_a_tenant_must_be_known_before_it_can_do_anything(caller: Caller, stranger: httpx.Client) -> None:
    tenant = str(uuid.uuid4())
    header = {"Authorization": f"Bearer {caller.mint(owner_id=tenant).json()['token']}"}
    assert is_text(stranger.post("/breadcrumbs", json=NOTE, headers=header), 500)
    assert caller.server.post(f"/tenants/{tenant}", json={"name": "another"}).status_code == 200
    assert stranger.post("/breadcrumbs", json=NOTE, headers=header).status_code == 200


def test_a_created_breadcrumb_is_200_with_its_id_alone(caller: Caller) -> None:
    answered = caller.server.post("/breadcrumbs", json={**NOTE, "ttl_type": "ignored", "visibility": "secret"})
    assert (answered.status_code, set(answered.json())) == (200, {"id"})
    full = caller.full(answered.json()["id"])
    assert (full["visibility"], full["sensitivity"], full["version"]) == ("Team", "Low", 1)
    assert (full["owner_id"], full["created_by"], full["context"]) == (OWNER_ID, AGENT_ID, {"text": "hi"})
    assert full["ttl_type"] is None
    assert full["description"] is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": None},
        {"title": 1},
        {"tags": [1]},
        {"ttl": "tomorrow"},
        {"ttl": "2030-01-01T00:00:00"},
        {"llm_hints": []},
    ],
)
def test_a_draft_of_the_wrong_shape_is_422(caller: Caller, wrong: dict[str, Any]) -> None:
    assert is_text(caller.server.post("/breadcrumbs", json={**NOTE, **wrong}), 422)


def test_what_a_language_model_writes_is_no_draft(caller: Caller) -> None:
    assert is_text(caller.server.post("/breadcrumbs", json={"action": "create", "breadcrumb": NOTE}), 422)


def test_a_body_must_be_json_within_two_mebibytes(caller: Caller) -> None:
    json_type = {"Content-Type": "application/json"}
    assert is_text(caller.server.post("/breadcrumbs", content="{}", headers={"Content-Type": "text/plain"}), 415)
    assert is_text(caller.server.post("/breadcrumbs", content="{", headers=json_type), 400)
    assert is_text(caller.server.post("/breadcrumbs", json={**NOTE, "context": "x" * 2_097_152}), 413)
    assert created(caller, context="x" * 1_500_000)
    assert is_text(caller.server.put("/breadcrumbs", json=NOTE), 405)
    assert is_text(caller.server.get("/nowhere"), 404)


def test_an_idempotency_key_can_be_used_once(caller: Caller) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    caller.order("create", "status_401")
    assert caller.server.post("/breadcrumbs", json=NOTE, headers=key).status_code == 401  # and the key is not used up
    assert caller.server.post("/breadcrumbs", json=NOTE, headers=key).status_code == 200
    answered = caller.server.post("/breadcrumbs", json=NOTE, headers=key)
    assert (answered.status_code, answered.text) == (409, "duplicate idempotency key")


def test_the_list_needs_no_token_and_has_the_latest_first(caller: Caller, stranger: httpx.Client) -> None:
    tag = uuid.uuid4().hex
    first, second = created(caller, tags=[tag]), created(caller, tags=[tag, "more"], description="x")
    listed = stranger.get("/breadcrumbs", params={"tag": tag}).json()
    assert [item["id"] for item in listed] == [second, first]
    assert set(listed[0]) == {"id", "title", "tags", "schema_name", "version", "updated_at"}
    with_context = stranger.get("/breadcrumbs", params={"tag": tag, "include_context": "true", "limit": 1}).json()
    assert [item["context"] for item in with_context] == [{"text": "hi"}]
    assert with_context[0]["description"] is None
    assert [item["id"] for item in stranger.get("/breadcrumbs", params={"tag": tag, "offset": 1}).json()] == [first]
    assert stranger.get("/breadcrumbs", params={"tag": tag, "schema_name": "other.v1"}).json() == []


@pytest.mark.parametrize("query", ["tag=a&tag=b", "limit=0", "limit=x", "limit=-1", "include_context=yes", "offset=-1"])
def test_a_wrong_query_is_400(stranger: httpx.Client, query: str) -> None:
    assert is_text(stranger.get(f"/breadcrumbs?{query}"), 400)


def test_search_finds_nothing(caller: Caller) -> None:
    assert caller.server.get("/breadcrumbs/search", params={"q": "random"}).json() == []


def test_a_breadcrumb_that_is_not_there_is_404_and_changing_it_500(caller: Caller) -> None:
    path = f"/breadcrumbs/{uuid.uuid4()}"
    for answered in (caller.server.get(path), caller.server.get(f"{path}/full"), caller.server.delete(path)):
        assert (answered.status_code, answered.text) == (404, "not found")
    assert is_text(caller.server.patch(path, json={"title": "x"}), 500)
    assert is_text(caller.server.get("/breadcrumbs/7/full"), 400)


def test_a_patch_replaces_what_it_names_and_counts_versions(caller: Caller) -> None:
    path = f"/breadcrumbs/{created(caller)}"
    assert caller.server.patch(path, json={"context": {"text": "ho"}}).json() == {"ok": True}
    assert caller.server.patch(path, json={"tags": []}, headers={"If-Match": '"2"'}).status_code == 200
    answered = caller.server.patch(path, json={"tags": ["x"]}, headers={"If-Match": "2"})
    assert (answered.status_code, answered.text) == (412, "version_mismatch")
    full = caller.server.get(f"{path}/full").json()
    assert (full["version"], full["context"], full["tags"], full["title"]) == (3, {"text": "ho"}, [], "a note")
    assert caller.server.patch(path, json={"context": None, "tags": None, "title": None}).json() == {"ok": True}
    patched = caller.server.get(f"{path}/full").json()
    assert [patched[name] for name in ("version", "context", "tags", "title")] == [4, {"text": "ho"}, [], "a note"]
    history = caller.server.get(f"{path}/history").json()
    assert [version["context"]["text"] for version in history] == ["ho", "ho", "ho", "hi"]


def test_a_deleted_breadcrumb_is_gone_and_nobody_is_told(caller: Caller) -> None:
    with caller.listening() as listener:
        breadcrumb_id = created(caller)
        assert caller.server.delete(f"/breadcrumbs/{breadcrumb_id}").json() == {"ok": True}
        listener.about(created(caller))
    assert len(listener.about(breadcrumb_id)) == 1
    assert caller.server.get(f"/breadcrumbs/{breadcrumb_id}").status_code == 404


def test_the_stream_pings_at_once_and_then_in_intervals(caller: Caller) -> None:
    with caller.listening() as listener:
        listener.wait(lambda listener: len(listener.events) >= 3)
    assert all(set(event) == {"type", "ts"} and event["type"] == "ping" for event in listener.events[:3])


def test_an_event_has_the_whole_context_and_no_name_of_its_own(caller: Caller) -> None:
    with caller.listening() as listener:
        breadcrumb_id = created(caller, context={"text": "grüß dich"})
        (event,) = listener.about(breadcrumb_id)
    assert all(line.startswith("data: {") and "\n" not in line for line in listener.lines)
    assert event["type"] == "breadcrumb.updated"  # a new one too
    assert (event["version"], event["schema_name"], event["tags"]) == (1, "note.v1", ["note"])
    assert event["context"] == {"text": "grüß dich"}
    assert event["owner_id"] == OWNER_ID
    assert "title" not in event


def test_a_stream_has_the_events_of_its_own_tenant_only(caller: Caller, stranger: httpx.Client) -> None:
    tenant = str(uuid.uuid4())
    caller.server.post(f"/tenants/{tenant}", json={"name": "another"}).raise_for_status()
    header = {"Authorization": f"Bearer {caller.mint(owner_id=tenant).json()['token']}"}
    with caller.listening() as listener:
        foreign = stranger.post("/breadcrumbs", json=NOTE, headers=header).json()["id"]
        listener.about(created(caller))
    assert all(event.get("breadcrumb_id") != foreign for event in listener.events)


def test_a_stream_does_not_repeat_what_was_before(caller: Caller) -> None:
    before = created(caller)
    with caller.listening() as listener:
        listener.about(created(caller))
    assert all(event.get("breadcrumb_id") != before for event in listener.events)


def test_a_stream_needs_a_token(stranger: httpx.Client) -> None:
    assert is_text(stranger.get("/events/stream"), 401)


def test_an_event_beyond_one_mebibyte_is_lost(caller: Caller) -> None:
    with caller.listening() as listener:
        large = created(caller, context="x" * 1_100_000)
        listener.about(created(caller))
    assert all(event.get("breadcrumb_id") != large for event in listener.events)
    assert caller.full(large)["size_bytes"] > 1_100_000


def test_the_newer_edition_changes_in_pieces_and_tells_only_that(caller: Caller) -> None:
    path = f"/breadcrumbs/{(breadcrumb_id := created(caller))}"
    with caller.listening() as listener:
        for action, body in (
            ("tags/add", {"tags": ["x", "note"]}),
            ("tags/remove", {"tags": ["note"]}),
            ("context/merge", {"context": {"more": {"deep": 1}}}),
            ("approve", {}),
            ("reject", {"reason": "too loud"}),
        ):
            assert caller.server.post(f"{path}/{action}", json=body).json() == {"ok": True}
        events = listener.about(breadcrumb_id, 5)
    assert not any({"schema_name", "tags", "version", "context"} & set(event) for event in events)
    assert [event.get("tags_added") for event in events][:1] == [1]
    assert events[4]["reason"] == "too loud"
    full = caller.full(breadcrumb_id)
    assert (full["tags"], full["context"], full["version"]) == (["x"], {"text": "hi", "more": {"deep": 1}}, 6)
    assert is_text(caller.server.post(f"{path}/tags/add", json={"tags": "x"}), 422)


def test_the_editions_differ_in_their_endpoints(caller: Caller) -> None:
    assert caller.server.get("/subscriptions/selectors").status_code == 404
    with calling("--edition", "M") as older:
        assert older.server.get("/subscriptions/selectors").json() == []
        assert older.server.post(f"/breadcrumbs/{created(older)}/approve").status_code == 404


def test_health_is_a_text(stranger: httpx.Client) -> None:
    assert stranger.get("/health").text == "ok"


def test_without_authentication_everybody_acts_as_the_owner() -> None:
    with connected("rcrt_server", "--auth-disabled") as server:
        breadcrumb_id = server.post("/breadcrumbs", json=NOTE).json()["id"]
        assert server.get(f"/breadcrumbs/{breadcrumb_id}/full").json()["owner_id"] == OWNER_ID


def test_with_a_token_minting_asks_for_it() -> None:
    with connected("rcrt_server", "--token", "t0k") as server:
        identity = {"owner_id": OWNER_ID, "agent_id": AGENT_ID}
        assert is_text(server.post("/auth/token", json=identity), 401)
        assert server.post("/faults", json={}).status_code == 401
        header = {"Authorization": "Bearer t0k"}
        minted = server.post("/auth/token", json=identity, headers=header).json()["token"]
        for token in (minted, "t0k"):
            assert server.post("/breadcrumbs", json=NOTE, headers={"Authorization": f"Bearer {token}"}).is_success


def test_the_server_stops_at_once_with_a_stream_open_and_a_tool_running() -> None:
    started = time.monotonic()
    with running("rcrt_server") as (url, process), plainhttp.client(base_url=url, timeout=DEADLINE_S) as server:
        caller = Caller(server)
        caller.sign_in()
        caller.request("timer", {"seconds": 60})
        with caller.listening() as listener:
            process.terminate()
            listener.wait(lambda listener: listener.ended is not None)
    assert time.monotonic() - started < DEADLINE_S / 2
