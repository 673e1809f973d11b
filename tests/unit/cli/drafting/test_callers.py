"""Who may call: what is found out about keys, and what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.cli.drafting.callers import Callers, Trusted, callers
from gateway.cli.drafting.draft import checked
from gateway.cli.output import CommandError
from gateway.settings import AuthSettings
from tests.streams import Request, http_reply
from tests.support.keys import jwk, public_pem
from tests.unit.cli.drafting.answering import FOLDER, Page, answering, json_page

pytestmark = pytest.mark.anyio

WELL_KNOWN = "/.well-known/openid-configuration"


def settings(found: Callers, folder: Path = FOLDER) -> Any:
    """The settings that it makes."""
    auth = checked(f"auth:\n{found.yaml}", folder).auth
    assert isinstance(auth, AuthSettings)
    return auth


def issuer(*jwks: dict[str, Any], name: str = "", **more: Any) -> dict[str, Page]:
    """Its discovery document, with the name it is asked by, and its keys."""

    def about(request: Request) -> bytes:
        url = f"http://{request.header('host')}"
        return http_reply(200, {"issuer": name or url, "jwks_uri": f"{url}/keys", **more})

    return {WELL_KNOWN: about, "/keys": json_page({"keys": jwks})}


async def test_without_a_word_there_is_an_api_key() -> None:
    found = await callers(Trusted(), FOLDER)
    assert len(found.token) == 64
    assert found.token not in found.yaml
    (key,) = settings(found).api_keys
    assert key.id == "me"


async def test_a_secret_stays_in_its_variable() -> None:
    found = await callers(Trusted(secret_env="OUR_SECRET", issuer="me", audience=("us",)), FOLDER)
    (entry,) = settings(found).jwt
    assert (entry.issuer, entry.audience) == ("me", ("us",))
    assert "secret: ${env:OUR_SECRET}" in found.yaml
    assert list(found.variables) == ["OUR_SECRET"]
    assert found.token.format(config=" -c x.yaml") == '"$(toolgate token -c x.yaml)"'


async def test_the_kind_of_a_public_key_decides_its_algorithms(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(public_pem("p384"))
    found = await callers(Trusted(public_key=str(tmp_path / "key.pem"), issuer="me"), tmp_path)
    (entry,) = settings(found, tmp_path).jwt
    assert (entry.algorithms, entry.audience) == (("ES384",), ("toolgate",))


ALGORITHMS = [
    ({"id_token_signing_alg_values_supported": ["PS256", "RS256", "none"]}, ("RS256", "PS256")),
    ({"id_token_signing_alg_values_supported": ["ES256K"]}, ("RS256", "EdDSA")),
    ({}, ("RS256", "EdDSA")),
]


@pytest.mark.parametrize(("more", "algorithms"), ALGORITHMS)
async def test_an_issuer_is_asked_for_its_keys_and_algorithms(
    more: dict[str, Any], algorithms: tuple[str, ...]
) -> None:
    async with answering(issuer(jwk("rsa"), jwk("ed25519"), **more)) as site:
        found = await callers(Trusted(issuer=site.url, audience=("us", "them")), FOLDER)
    (entry,) = settings(found).jwt
    assert (entry.discovery, entry.algorithms, entry.audience) == (True, algorithms, ("us", "them"))
    names = ", ".join(algorithms)
    assert found.said == (
        f"  Callers: tokens of {site.url} for us or them, signed with {names}; 2 keys at {site.url}/keys.",
    )


async def test_keys_may_be_elsewhere_than_the_issuer_says() -> None:
    async with answering(issuer(jwk("p256"))) as site:
        found = await callers(Trusted(issuer="https://issuer.example", jwks_url=f"{site.url}/keys"), FOLDER)
    (entry,) = settings(found).jwt
    assert (entry.jwks_url, entry.algorithms) == (f"{site.url}/keys", ("ES256",))


async def test_another_issuer_says_how_it_is_called() -> None:
    async with answering(issuer(jwk("p256"), name="https://real.example/")) as site:
        with pytest.raises(CommandError, match=r"It calls itself https://real\.example/: give that name to --issuer"):
            await callers(Trusted(issuer=site.url), FOLDER)


async def test_keys_of_no_use_are_told() -> None:
    async with answering(issuer({"kty": "oct", "k": "c2VjcmV0"})) as site:
        with pytest.raises(CommandError, match=r"None of the keys of .* can be used: Toolgate accepts RS256, "):
            await callers(Trusted(issuer=site.url), FOLDER)
        with pytest.raises(
            CommandError, match=r"cannot be fetched: status 404 \(http://.*/x/\.well-known/openid-configuration\)"
        ):
            await callers(Trusted(issuer=f"{site.url}/x"), FOLDER)


REFUSED = [
    (Trusted(secret_env="A", jwks_url="B"), "Use only one of --jwt-secret-env, --jwt-public-key and --jwks-url"),
    (Trusted(jwks_url="https://issuer.example/keys"), "Name the issuer with --issuer"),
    (Trusted(audience=("us",)), "--audience is for tokens of an issuer"),
    (
        Trusted(issuer="http://issuer.example"),
        "http://issuer.example cannot be asked for its keys: that takes an https URL",
    ),
    (Trusted(issuer="me", public_key="/absent.pem"), "/absent.pem cannot be read: No such file or directory."),
    (Trusted(issuer="me", public_key=__file__), "is no public key in PEM form"),
]


@pytest.mark.parametrize(("trusted", "said"), REFUSED, ids=[said for _, said in REFUSED])
async def test_words_that_make_no_callers_are_refused(trusted: Trusted, said: str) -> None:
    with pytest.raises(CommandError) as refused:
        await callers(trusted, FOLDER)
    assert said in str(refused.value)
