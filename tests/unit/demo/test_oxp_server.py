from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest

FLAT = {"OXP-Version": "1.0"}
NOTES: dict[str, Any] = {"tool_id": "Notes.Create", "input": {"text": "hi"}}


def flat(client: httpx.Client, tool_id: str, arguments: dict[str, Any], **context: Any) -> httpx.Response:
    request = {"tool_id": tool_id, "input": arguments, "context": context}
    return client.post("/tools/call", json=request, headers=FLAT)


def enveloped(client: httpx.Client, tool_id: str, arguments: dict[str, Any], **context: Any) -> httpx.Response:
    request = {"tool_id": tool_id, "input": arguments, "context": context}
    return client.post("/tools/call", json={"$schema": "urn:oxp:1.0", "request": request})


def search(client: httpx.Client, user_id: str) -> httpx.Response:
    return flat(client, "Mail.Search", {"query": "invoice"}, user_id=user_id)


def challenge_of(answered: httpx.Response) -> dict[str, str]:
    assert answered.status_code == 400
    (challenge,) = answered.json()["missing_requirements"]["authorization"]
    assert set(challenge) == {"id", "url", "check_url"}
    return dict(challenge)


@pytest.fixture
def user() -> str:
    """A user no other test knows, since the server remembers them."""
    return uuid.uuid4().hex


def test_a_flat_call_gets_a_flat_answer_with_the_header(oxp: httpx.Client, user: str) -> None:
    answered = flat(oxp, "Notes.Create", {"text": "hi"}, user_id=user)
    assert answered.headers["oxp-version"] == "1.0"
    assert answered.json()["value"] == {"id": "note-1", "text": "hi"}
    assert set(answered.json()) == {"call_id", "duration", "success", "value"}


def test_an_enveloped_call_gets_an_enveloped_answer(oxp: httpx.Client, user: str) -> None:
    answered = enveloped(oxp, "Notes.Create", {"text": "hi"}, user_id=user)
    assert "oxp-version" not in answered.headers
    assert answered.json()["$schema"] == "urn:oxp:1.0"
    assert answered.json()["result"]["success"] is True


def test_the_list_is_flat_for_those_who_send_the_header(oxp: httpx.Client) -> None:
    answered = oxp.get("/tools", headers={"OXP-Version": "1.0.0"})
    assert answered.headers["oxp-version"] == "1.0.0"
    assert set(answered.json()) == {"items"}
    mail = next(tool for tool in answered.json()["items"] if tool["id"] == "Mail.Search@1.0.0")
    assert mail["input_schema"]["required"] == ["query"]
    assert mail["requirements"] == {
        "authorization": [{"id": "demo-mail", "oauth2": {"scopes": ["mail.read"]}}],
        "user_id": True,
    }


def test_the_list_is_enveloped_for_everyone_else(oxp: httpx.Client) -> None:
    answered = oxp.get("/tools")
    assert "oxp-version" not in answered.headers
    assert set(answered.json()) == {"$schema", "items"}


@pytest.mark.parametrize("version", ["7", "v1.0", "1.0-evil", "1.0, 1.0", ""])
@pytest.mark.parametrize(
    "ask", [lambda c, h: c.get("/tools", headers=h), lambda c, h: c.post("/call", json=NOTES, headers=h)]
)
def test_an_unsupported_version_header_is_refused_flat(
    oxp: httpx.Client, ask: Callable[[httpx.Client, dict[str, str]], httpx.Response], version: str
) -> None:
    answered = ask(oxp, {"OXP-Version": version})
    assert (answered.status_code, answered.headers["oxp-version"]) == (400, "1.0")
    assert "$schema" not in answered.json()


@pytest.mark.parametrize("schema", ["urn:oxp:2.0", "urn:oxp:1.0 ", 1, None, {}])
def test_an_unsupported_schema_is_refused_enveloped(oxp: httpx.Client, schema: Any) -> None:
    for answered in (
        oxp.post("/call", json={"$schema": schema, "request": NOTES}),
        oxp.request("GET", "/tools", json={"$schema": schema}),
    ):
        assert (answered.status_code, answered.json()["$schema"]) == (400, "urn:oxp:1.0")


def test_consent_is_one_users_own(oxp: httpx.Client, user: str) -> None:
    oxp.post(challenge_of(search(oxp, user))["url"])
    assert search(oxp, user).status_code == 200
    challenge_of(search(oxp, user + "-other"))


def test_the_page_shows_a_user_id_as_text(oxp: httpx.Client) -> None:
    page = oxp.get(challenge_of(search(oxp, "<script>{0}</script>"))["url"]).text
    assert "&lt;script&gt;{0}&lt;/script&gt;" in page
    assert "<script>" not in page


@pytest.mark.parametrize("secrets", [[], [{"id": "OTHER", "value": "x"}], [{"id": "SMS_API_KEY", "value": ""}]])
def test_a_missing_secret_is_named(oxp: httpx.Client, secrets: list[dict[str, str]]) -> None:
    answered = flat(oxp, "Sms.Send", {"to": "+4712345678", "text": "hi"}, secrets=secrets)
    assert answered.status_code == 400
    assert answered.json()["missing_requirements"] == {"secrets": [{"id": "SMS_API_KEY"}]}


def test_a_text_message_shows_neither_the_secret_nor_the_number(oxp: httpx.Client) -> None:
    secret = [{"id": "SMS_API_KEY", "value": "canary"}]
    answered = flat(oxp, "Sms.Send", {"to": "+4712345678", "text": "hi"}, secrets=secret)
    assert answered.json()["value"] == {"status": "queued", "to_last4": "5678"}
    assert "canary" not in answered.text
    assert "canary" not in flat(oxp, "Sms.Send", {"to": "canary", "text": "hi"}, secrets=secret).text


def test_notes_are_kept_by_user_up_to_a_number(oxp: httpx.Client, user: str) -> None:
    for _ in range(50):
        assert flat(oxp, "Notes.Create", {"text": "hi"}, user_id=user).json()["success"] is True
    assert flat(oxp, "Notes.Create", {"text": "hi"}, user_id=user).json()["success"] is False
    assert len(flat(oxp, "Notes.List", {}, user_id=user).json()["value"]) == 50
    assert flat(oxp, "Notes.List", {}, user_id=user + "-other").json()["value"] == []
