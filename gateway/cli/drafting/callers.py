"""Who may call: what `toolgate init` writes below `auth`, after it has looked at the keys it is to trust."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args

from gateway.auth import remote
from gateway.auth.keys import HS256, KeySet, KeySetError, UnfitKeyError, algorithms_for, read_pem
from gateway.cli.drafting.draft import quoted
from gateway.cli.hash_key import hashed
from gateway.cli.output import FAILED, PROGRAM, USAGE, CommandError, count
from gateway.configfile.web import is_issuer_url
from gateway.settings.access import SigningAlgorithm

KEY_BYTES = 32
AUDIENCE = "toolgate"
COMMON = frozenset({"RS256", "ES256", "ES384", "ES512", "EdDSA"})  # what a kind of key is mostly used with
KEYS_ELSEWHERE = "If its keys are elsewhere, add --jwks-url or --jwt-public-key."
ASK_ISSUER = "a token of the issuer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """Whose tokens are to be good: all empty for an API key, which is made."""

    secret_env: str | None = None
    public_key: str | None = None
    jwks_url: str | None = None
    issuer: str | None = None
    audience: Sequence[str] = ()


class Callers(NamedTuple):
    """Who may call: the YAML below `auth`, what was found, variables that it names, and how a caller gets a token."""

    yaml: str
    said: tuple[str, ...]
    variables: Mapping[str, str]
    token: str
    about_token: str


async def callers(trusted: Trusted, folder: Path) -> Callers:
    """Looks at the keys of an issuer, or makes an API key. Raises CommandError."""
    sources = [trusted.secret_env, trusted.public_key, trusted.jwks_url]
    if sum(source is not None for source in sources) > 1:
        raise CommandError(USAGE, "Use only one of --jwt-secret-env, --jwt-public-key and --jwks-url.")
    if trusted.secret_env is not None:
        return _shared_secret(trusted, trusted.secret_env)
    if trusted.issuer is None:
        if trusted.public_key or trusted.jwks_url:
            raise CommandError(USAGE, "Name the issuer with --issuer: the `iss` of its tokens.")
        if trusted.audience:
            raise CommandError(USAGE, "--audience is for tokens of an issuer: name it with --issuer.")
        return _api_key()
    if trusted.public_key is not None:
        return _public_key(trusted, trusted.issuer, trusted.public_key, folder)
    return await _published_keys(trusted, trusted.issuer)


def _api_key() -> Callers:
    key = secrets.token_hex(KEY_BYTES)
    yaml = f"""\
  api_keys: # `{PROGRAM} hash-key` makes more of them
    - id: me
      hash: {hashed(key)}
"""
    return Callers(yaml, (), {}, key, "the key of callers, shown only now")


def _shared_secret(trusted: Trusted, variable: str) -> Callers:
    lines = [f"- secret: ${{env:{variable}}}"]
    if trusted.issuer:
        lines.append(f"  issuer: {quoted(trusted.issuer)}")
    if trusted.audience:
        lines.append(f"  audience: {_list(trusted.audience)}")
    said = f"  Callers: tokens signed with {variable} (HS256)."
    variables = {variable: "the secret that tokens are signed with: `openssl rand -hex 32` makes one"}
    return Callers(_jwt(lines), (said,), variables, f'"$({PROGRAM} token{{config}})"', "a token for development")


def _public_key(trusted: Trusted, issuer: str, path: str, folder: Path) -> Callers:
    try:
        fit = algorithms_for(read_pem(Path(path).read_text("latin-1")))
    except OSError as exc:
        raise CommandError(USAGE, f"{path} cannot be read: {exc.strerror}.") from exc
    except UnfitKeyError as exc:
        raise CommandError(USAGE, f"{path} {exc}.") from exc
    written = path if os.path.isabs(path) else os.path.relpath(path, folder)
    return _of_issuer(trusted, issuer, [f"public_key: ${{file:{written}}}"], _usual(fit), f"its key in {path}")


async def _published_keys(trusted: Trusted, issuer: str) -> Callers:
    """Asks for the keys, where they are said to be or where the issuer itself says they are."""
    if trusted.jwks_url is None and not is_issuer_url(issuer):
        raise CommandError(
            USAGE, f"{issuer} cannot be asked for its keys: that takes an https URL without query.", KEYS_ELSEWHERE
        )
    source = "discovery: true" if trusted.jwks_url is None else f"jwks_url: {quoted(trusted.jwks_url)}"
    url = trusted.jwks_url or issuer.rstrip("/") + remote.WELL_KNOWN
    try:
        async with asyncio.timeout(remote.FETCH_S):
            url, named = await _where(trusted.jwks_url, issuer)
            document = await remote.fetch(url, remote.system_authorities())
        keys = KeySet.read(document, _known())
    except remote.AnotherIssuerError as exc:
        hint = f"It calls itself {exc.named}: give that name to --issuer, as its tokens do."
        raise CommandError(FAILED, f"{issuer} is not what the issuer there calls itself.", hint) from exc
    except (remote.UnavailableError, KeySetError, TimeoutError) as exc:
        reason = str(exc) or f"no answer within {remote.FETCH_S:g} s"
        raise CommandError(FAILED, f"The keys of {issuer} cannot be fetched: {reason} ({url}).") from exc
    if keys.is_empty:
        raise CommandError(FAILED, f"None of the keys of {issuer} can be used: Toolgate accepts {', '.join(_known())}.")
    algorithms = _ordered(keys.algorithms & named) or _usual(keys.algorithms)
    return _of_issuer(trusted, issuer, [source], algorithms, f"{count(len(document['keys']), 'key')} at {url}")


async def _where(jwks_url: str | None, issuer: str) -> tuple[str, frozenset[str]]:
    """Where the keys are, and the algorithms that the issuer says it signs with. Raises UnavailableError."""
    if jwks_url is not None:
        return jwks_url, frozenset()
    document = await remote.discover(issuer, remote.system_authorities())
    listed = document.get("id_token_signing_alg_values_supported")
    named = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return remote.jwks_url(issuer, document), frozenset(named)


def _of_issuer(trusted: Trusted, issuer: str, source: Sequence[str], algorithms: Sequence[str], found: str) -> Callers:
    audience = trusted.audience or (AUDIENCE,)
    lines = [
        f"- issuer: {quoted(issuer)}",
        *(f"  {line}" for line in source),
        f"  algorithms: [{', '.join(algorithms)}]",
        f"  audience: {_list(audience)} # a token must be for one of these",
    ]
    said = f"  Callers: tokens of {issuer} for {' or '.join(audience)}, signed with {', '.join(algorithms)}; {found}."
    return Callers(_jwt(lines), (said,), {}, "...", ASK_ISSUER)


def _jwt(lines: Sequence[str]) -> str:
    return "".join(["  jwt:\n", *(f"    {line}\n" for line in lines)])


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, names))}]"


def _known() -> list[str]:
    """The algorithms of public keys, in the order of the settings."""
    return [name for name in get_args(SigningAlgorithm) if name != HS256]


def _ordered(names: Collection[str]) -> list[str]:
    return [name for name in _known() if name in names]


def _usual(fit: Collection[str]) -> list[str]:
    """Of the algorithms that keys can be used with, those that they mostly are."""
    return _ordered(COMMON & set(fit)) or _ordered(fit)
