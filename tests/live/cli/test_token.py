"""`toolgate token` and `--version`: small commands, their output ready for `$(...)`."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

from gateway import __version__
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


def test_an_unknown_issuer_names_those_there_are(config: str) -> None:
    done = entered("token", "-c", config, "--issuer", "them")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "No entry of auth.jwt has the issuer 'them' ('us').\n"


def test_claims_are_put_where_the_configuration_looks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(f"auth: {{jwt: [{{secret: '{SECRET}', scope_claim: a.scopes, user_id_claim: a.user}}]}}\n")
    done = entered("token", "-c", str(path), "--sub", "ada", "--scope", "x")
    claims = jwt.decode(done.stdout.strip(), SECRET, algorithms=["HS256"])
    assert (claims["sub"], claims["a"]) == ("ada", {"scopes": "x", "user": "ada"})


def test_a_claim_below_one_that_is_text_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(f"auth: {{jwt: [{{secret: '{SECRET}', user_id_claim: sub.name}}]}}\n")
    done = entered("token", "-c", str(path))
    assert (done.returncode, done.stderr) == (2, "No token has a claim 'sub.name': 'sub' holds no others.\n")


@pytest.mark.parametrize("subject", ["", "a\nb", "a" * 257])
def test_a_name_that_the_gateway_refuses_is_told_in_a_sentence(config: str, subject: str) -> None:
    done = entered("token", "-c", config, "--sub", subject)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "--sub must be 1 to 256 printable characters.\n"


def test_a_claim_that_it_requires_and_nobody_names_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(f"auth: {{jwt: [{{secret: '{SECRET}', require: [exp, sub, iss]}}]}}\n")
    done = entered("token", "-c", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "This gateway refuses tokens without iss; give the entry one.\n"


def test_the_first_entry_with_a_secret_signs_and_no_other_can(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    remote = "{issuer: 'https://a.example', discovery: true, algorithms: [RS256], audience: [x]}"
    path.write_text(f"auth: {{jwt: [{remote}, {{issuer: b, secret: '{SECRET}'}}]}}\n")
    done = entered("token", "-c", str(path))
    assert jwt.decode(done.stdout.strip(), SECRET, algorithms=["HS256"])["iss"] == "b"
    done = entered("token", "-c", str(path), "--issuer", "https://a.example")
    assert (done.returncode, done.stdout) == (2, "")
    assert "are made by the issuer" in done.stderr
    path.write_text(f"auth: {{jwt: [{remote}]}}\n")
    done = entered("token", "-c", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "No entry of auth.jwt has a secret to sign with.\n"


def test_without_authentication_there_is_no_token_to_make(tmp_path: Path) -> None:
    path = tmp_path / "open.yaml"
    path.write_text("auth: none\n")
    done = entered("token", "-c", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "takes callers without a token" in done.stderr


def test_the_version_is_the_package_s() -> None:
    done = toolgate("--version")
    assert (done.returncode, done.stdout) == (0, f"toolgate {__version__}\n")
