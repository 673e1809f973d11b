"""`toolgate token`: its output is ready for `$(...)`."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

from tests.support.terminal import entered, toolgate

SECRET = "a secret of at least thirty-two bytes"


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "gateway.yaml"
    path.write_text("auth: {jwt: [{secret: '${file:jwt-secret}', issuer: us, audience: [toolgate]}]}\n")
    (tmp_path / "jwt-secret").write_text(SECRET)
    return str(path)


def test_a_token_is_all_it_prints(config: str) -> None:
    done = toolgate("token", "-c", config, "--sub", "ada", "--scope", "a", "--scope", "b")
    claims = jwt.decode(done.stdout.strip(), SECRET, algorithms=["HS256"], audience="toolgate", issuer="us")
    assert (done.returncode, done.stderr, claims["sub"], claims["scope"]) == (0, "", "ada", "a b")


def entries(*jwts: str) -> str:
    return f"auth: {{jwt: [{', '.join(jwts)}]}}\n"


OURS = f"{{issuer: us, secret: '{SECRET}'}}"
REMOTE = "{issuer: 'https://a.example', discovery: true, algorithms: [RS256], audience: [x]}"


def test_claims_are_put_where_the_configuration_looks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(entries(f"{{secret: '{SECRET}', scope_claim: a.scopes, user_id_claim: a.user}}"))
    done = entered("token", "-c", str(path), "--sub", "ada", "--scope", "x")
    claims = jwt.decode(done.stdout.strip(), SECRET, algorithms=["HS256"])
    assert (claims["sub"], claims["a"]) == ("ada", {"scopes": "x", "user": "ada"})


def test_the_first_entry_with_a_secret_signs(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(entries(REMOTE, OURS))
    done = entered("token", "-c", str(path))
    assert jwt.decode(done.stdout.strip(), SECRET, algorithms=["HS256"])["iss"] == "us"


BAD_NAME = "--sub must be 1 to 256 printable characters."
REFUSED: list[tuple[str, list[str], str]] = [
    (entries(OURS), ["--issuer", "them"], "No entry of auth.jwt has the issuer 'them' ('us')."),
    (entries(OURS), ["--sub", ""], BAD_NAME),
    (entries(OURS), ["--sub", "a\nb"], BAD_NAME),
    (entries(OURS), ["--sub", "a" * 257], BAD_NAME),
    (
        entries(f"{{secret: '{SECRET}', user_id_claim: sub.name}}"),
        [],
        "No token has a claim 'sub.name': 'sub' holds no others.",
    ),
    (
        entries(f"{{secret: '{SECRET}', require: [exp, sub, iss]}}"),
        [],
        "This gateway refuses tokens without iss; give the entry one.",
    ),
    (
        entries(REMOTE, OURS),
        ["--issuer", "https://a.example"],
        "Tokens of an issuer with public keys are made by the issuer; ask it for one.",
    ),
    (entries(REMOTE), [], "No entry of auth.jwt has a secret to sign with."),
    ("auth: none\n", [], "FILE has `auth: none`: its gateway takes callers without a token."),
]


@pytest.mark.parametrize(("text", "words", "sentence"), REFUSED)
def test_a_token_that_cannot_be_made_gets_a_sentence(
    tmp_path: Path, text: str, words: list[str], sentence: str
) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(text)
    done = entered("token", "-c", str(path), *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.replace(str(path), "FILE") == f"{sentence}\n"
