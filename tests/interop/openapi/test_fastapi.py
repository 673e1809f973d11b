"""An API on FastAPI: what it decodes is what callers sent, by every surface; and what it does wrong is told."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import plainhttp
from tests.interop.openapi.calls import SURFACES, Caller, Outcome, backend, gateway
from tests.interop.openapi.conftest import KEY

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP8z8BQDwAEhQGAqEwqYwAAAABJRU5ErkJggg=="
ITEM: dict[str, Any] = {
    "q": None,
    "colour": "red",
    "tag": [],
    "ratio": None,
    "strict": False,
    "x_tenant": None,
    "session": None,
}
ASKED = {"q": "a b&c", "colour": "light green", "tag": ["é", "a,b"], "ratio": 0.5, "strict": True, "session": "a=b"}
NOTE: dict[str, Any] = {"title": "é & co", "stars": None, "day": "2026-11-22", "parts": [{"title": "part"}]}
STORED: dict[str, Any] = {**NOTE, "parts": [{"title": "part", "stars": None, "day": None, "parts": []}]}
FILE = {"base64": base64.b64encode(b"--x\r\nbytes\x00").decode(), "filename": "a b.bin", "content_type": "image/x-b"}

# The operation, its arguments, and its value.
STEPS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "parameters everywhere": (
        "read_item_items__item_id__get",
        {"item_id": 7, **ASKED, "x-tenant": "acme"},
        {**ITEM, **ASKED, "item_id": 7, "x_tenant": "acme"},
    ),
    "parameters left out": ("read_item_items__item_id__get", {"item_id": 7}, {**ITEM, "item_id": 7}),
    "JSON": ("create_note_notes_post", {"body": NOTE}, {**STORED, "id": 7}),
    "JSON and parameters": (
        "replace_note_notes__note_id__put",
        {"note_id": 3, "notify": False, "body": NOTE},
        {"note_id": 3, "notify": False, "note": STORED},
    ),
    "nothing": ("delete_note_notes__note_id__delete", {"note_id": 3}, None),
    "an array": ("set_tags_tags_post", {"body": ["a", "é"]}, ["a", "é"]),
    "a form": (
        "fill_form_form_post",
        {"body": {"name": "a+b &=é", "tag": ["x", "y z"]}},
        {"name": "a+b &=é", "tag": ["x", "y z"]},
    ),
    "a file": (
        "upload_files_post",
        {"body": {"file": FILE, "name": "é"}},
        {"name": "é", "filename": "a b.bin", "type": "image/x-b", "hex": b"--x\r\nbytes\x00".hex()},
    ),
    "a text": ("plain_plain_get", {}, "plain text"),
    "a path that ends in a slash": ("slash_slash__get", {"value": "v"}, "v"),
    "a body and such a path": ("post_slash_slash__post", {"value": "v"}, "v"),
    "our token": ("me_me_get", {}, {"known": True}),
}


@pytest.fixture(scope="module")
async def caller(anyio_backend: object, notes: str) -> AsyncIterator[Caller]:
    document, never = f"{notes}/openapi.json", {"failures": 0}
    backends = {
        "notes": backend(notes, document, toolkit="Notes", auth={"bearer": KEY}, timeout="2s", breaker=never),
        "badly": backend(notes, document, toolkit="Badly", auth={"bearer": f"{KEY}-of-old"}, breaker=never),
    }
    async with gateway(backends) as calling:
        yield calling


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", STEPS)
def test_it_decodes_what_callers_sent(caller: Caller, surface: str, name: str) -> None:
    tool, arguments, value = STEPS[name]
    outcome = caller.call(f"Notes.{tool}", arguments, surface)
    assert outcome.ok, outcome
    if surface != "mcp" or isinstance(value, dict):
        assert outcome.value == value


def test_a_picture_is_one_for_callers_of_mcp_and_base64_for_others(caller: Caller) -> None:
    (block,) = caller.call("Notes.pixel_pixel_get", {}, "mcp").blocks
    assert block["type"] == "image"
    assert (block["mimeType"], block["data"]) == ("image/png", PIXEL)
    for surface in ("otc", "oxp"):
        value = caller.call("Notes.pixel_pixel_get", {}, surface).value
        assert (value["content_type"], value["base64"]) == ("image/png", PIXEL)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "q": TEXTS,
        "tag": st.lists(TEXTS, min_size=1, max_size=3),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "strict": st.booleans(),
        "session": st.from_regex(r"[A-Za-z0-9._~-]+", fullmatch=True),  # others are encoded, which nobody decodes
        "x-tenant": st.from_regex(r"[!-~]([ -~]{0,20}[!-~])?", fullmatch=True),
    },
)


@given(item_id=st.integers(-(2**63), 2**63), query=QUERIES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_parameters_arrive(caller: Caller, item_id: int, query: dict[str, Any]) -> None:
    outcome = caller.call("Notes.read_item_items__item_id__get", {"item_id": item_id, **query})
    assert outcome.ok, outcome
    sent = {name.replace("-", "_"): value for name, value in query.items()}
    assert outcome.value == {**ITEM, "item_id": item_id, **sent}


@given(name=TEXTS, tags=st.lists(TEXTS, min_size=1, max_size=3), data=st.binary(max_size=200))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_form_and_file_arrive(caller: Caller, name: str, tags: list[str], data: bytes) -> None:
    form = {"name": name, "tag": tags}
    assert caller.call("Notes.fill_form_form_post", {"body": form}).value == form
    file = {"base64": base64.b64encode(data).decode(), "filename": "a.bin"}
    assert caller.call("Notes.upload_files_post", {"body": {"file": file, "name": name}}).value == {
        "name": name,
        "filename": "a.bin",
        "type": "application/octet-stream",
        "hex": data.hex(),
    }


# What it does wrong: the code that callers get, words that the message has, and whether they may try again.
BROKEN = "broken_answer"
WRONG: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "crash": ({}, "tool_error", "500", True),
    "html": ({}, BROKEN, "broken answer", False),
    "cut": ({}, BROKEN, "broken answer", False),
    "nan": ({}, BROKEN, "broken answer", False),
    "deep": ({}, BROKEN, "broken answer", False),
    "latin": ({}, BROKEN, "broken answer", False),
    "gzip": ({}, BROKEN, "broken answer", False),
    "endless": ({}, "result_too_large", "passes a limit", False),
    "dropped": ({}, "unknown", "The connection to the tool server broke", True),
    "redirect": ({}, "tool_error", "moved", False),
    "loop": ({}, "tool_error", "moved", False),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_is_told(caller: Caller, name: str) -> None:
    arguments, code, words, can_retry = WRONG[name]
    outcome = caller.call(f"Notes.wrong_{name}", arguments)
    assert (outcome.ok, outcome.refused) == (False, False), outcome
    assert (outcome.code, outcome.can_retry) == (code, can_retry), outcome
    assert words in outcome.message
    assert "canary" not in str(outcome)


def test_an_answer_that_breaks_its_own_schema_is_an_answer(caller: Caller) -> None:
    assert caller.call("Notes.wrong_schema", {}).value == {"value": "forty-two"}
    assert caller.call("Notes.wrong_empty", {}).value is None


def runs(notes: str) -> dict[str, int]:
    with plainhttp.client() as http:
        counts: dict[str, int] = http.get(f"{notes}/runs").json()
    return counts


# Those that come back after a while, or of which a GET may be asked again; all others are not worth a retry.
PASSING = (408, 425, 429, 500, 502, 503, 504)
LASTING = (400, 403, 404, 405, 406, 409, 410, 412, 413, 414, 415, 422, 428, 431, 451, 501)


@pytest.mark.parametrize("status", sorted(PASSING + LASTING))
def test_a_status_is_a_failure_with_the_words_of_its_problem(caller: Caller, notes: str, status: int) -> None:
    before = runs(notes).get("wrong_status", 0)
    outcome = caller.call("Notes.wrong_status", {"code": status, "words": "because of it"})
    assert (outcome.ok, outcome.refused) == (False, False), outcome
    assert outcome.can_retry is (status in PASSING)
    assert outcome.retry_after_ms == (7000 if status in (429, 503) else None)
    if status < 500:
        assert "because of it" in outcome.message
    assert runs(notes)["wrong_status"] == before + 1


def test_a_304_was_not_asked_for(caller: Caller) -> None:
    assert caller.call("Notes.wrong_status", {"code": 304}).code == BROKEN


def test_arguments_that_it_refuses_are_named(caller: Caller) -> None:
    refused = caller.call("Notes.wrong_status", {"code": 99})  # by us, who know its schema
    assert refused.refused
    assert {*(refused.parameters or ())} == {"code"}
    told = caller.call("Notes.create_note_notes_post", {"body": {"title": "a", "day": "2026-02-31"}})
    assert "day" in (told.message + str(told.parameters))


def test_a_token_of_ours_that_it_refuses_is_our_matter_and_is_not_shown(caller: Caller) -> None:
    outcome: Outcome = caller.call("Badly.me_me_get", {})
    assert outcome.refused
    assert outcome.code == "backend_unavailable"
    assert f"{KEY}-of-old" not in str(outcome) + caller.log.log_text()
