"""Calls are valid and as long as wanted, and tokens are signed but where forged ones are wanted."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import jwt
import pytest

from tests.bench import calls, credentials
from tests.bench.calls import MCP, OTC, OXP, Form, Script, Size

BEARERS = credentials.hs256().bearers
SIZES = [Size(), Size(100_000), Size(100_000, notes=True)]


def body(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("form", [OTC, OXP, MCP])
@pytest.mark.parametrize("size", SIZES)
def test_calls_are_as_long_as_wanted_and_valid_in_every_form(form: Form, size: Size) -> None:
    sent = [body(request) for request in Script(10, BEARERS, form).ordinary(size)]
    assert {len(each) for each in sent} == {size.body_bytes}
    asked = json.loads(sent[0])
    arguments = asked["params"]["arguments"] if form is MCP else asked.get("request", asked)["input"]
    assert jsonschema_rs.is_valid(calls.SCHEMA, arguments)
    assert ("notes" in arguments) is size.notes


def opened(token: str | None) -> Any:
    assert token is not None
    return jwt.decode(
        token, credentials.public_pem(), ["RS256"], audience=credentials.AUDIENCE, issuer=credentials.ISSUER
    )


def test_tokens_are_signed_and_forged_ones_are_well_formed_but_not() -> None:
    good, bad = credentials.rs256(), credentials.forged()
    assert len({opened(token)["sub"] for token in good.bearers}) == credentials.CALLERS
    for token in bad.bearers[:3]:
        with pytest.raises(jwt.InvalidSignatureError):
            opened(token)
    assert opened(bad.good)["sub"] == opened(credentials.absent().good)["sub"] == "caller-0"
    assert b"Authorization" not in Script(10, credentials.absent().bearers).ordinary()[0]
