"""`toolgate token`: a bearer token for development, signed with the secret of a configuration."""

from __future__ import annotations

import argparse
import time
from typing import Any

import jwt

from gateway.auth.keys import HS256
from gateway.auth.tokens import MAX_NAME, is_name
from gateway.cli import configuration
from gateway.cli.output import OK, USAGE, CommandError, put, seconds
from gateway.settings import AuthSettings, JwtSettings

DESCRIPTION = "Prints a bearer token that a gateway with this configuration accepts."

DEFAULT_TTL_S = 15 * 60  # what OXP 1.0 recommends at most


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configuration.add_option(parser)
    parser.add_argument(
        "--sub", default="developer", metavar="NAME", help="the caller that the token names (default: %(default)s)"
    )
    parser.add_argument(
        "--issuer",
        metavar="ISS",
        help="the issuer in auth.jwt whose secret signs the token (default: the first with a secret)",
    )
    parser.add_argument(
        "--scope", action="append", default=[], metavar="SCOPE", help="a scope of the token; may be repeated"
    )
    parser.add_argument(
        "--ttl",
        type=seconds,
        default=DEFAULT_TTL_S,
        metavar="SECONDS",
        help="how long the token is valid (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    auth = configuration.load(arguments.config).auth
    if auth is None:
        raise CommandError(USAGE, f"{arguments.config} has `auth: none`: its gateway takes callers without a token.")
    put(mint(auth, arguments.sub, arguments.scope, arguments.ttl, arguments.issuer))
    return OK


def mint(auth: AuthSettings, subject: str, scopes: list[str], ttl_s: int, issuer: str | None = None) -> str:
    """Signs a token that the gateway of this configuration accepts. Raises CommandError."""
    if not is_name(subject):
        raise CommandError(USAGE, f"--sub must be 1 to {MAX_NAME} printable characters.")
    entry = _entry(auth, issuer)
    if entry.secret is None:
        raise CommandError(USAGE, "Tokens of an issuer with public keys are made by the issuer; ask it for one.")
    if entry.max_lifetime_s is not None and ttl_s > entry.max_lifetime_s:
        raise CommandError(
            USAGE, f"This gateway refuses tokens for more than {entry.max_lifetime_s:g} s (max_lifetime)."
        )
    now = int(time.time())
    claims: dict[str, Any] = {"sub": subject, "iat": now, "nbf": now, "exp": now + ttl_s}
    if entry.issuer:
        claims["iss"] = entry.issuer
    if entry.audience:
        _put(claims, entry.audience_claim or "aud", entry.audience[0])
    if entry.user_id_claim:
        _put(claims, entry.user_id_claim, subject)
    if scopes:
        _put(claims, entry.scope_claim[0], " ".join(scopes))
    if lacking := [claim for claim in entry.require if claim not in claims]:
        raise CommandError(USAGE, f"This gateway refuses tokens without {' and '.join(lacking)}; give the entry one.")
    return jwt.encode(claims, entry.secret.get_secret_value(), algorithm=HS256)


def _entry(auth: AuthSettings, issuer: str | None) -> JwtSettings:
    """The entry of that issuer, without one the first that has a secret. Raises CommandError."""
    entries = {entry.issuer: entry for entry in auth.jwt or ()}
    if issuer is None:
        signing = [entry for entry in entries.values() if entry.secret is not None]
        if not signing:
            raise CommandError(USAGE, "No entry of auth.jwt has a secret to sign with.")
        return signing[0]
    if issuer not in entries:
        known = ", ".join(repr(name) for name in entries if name) or "none has one"
        raise CommandError(USAGE, f"No entry of auth.jwt has the issuer {issuer!r} ({known}).")
    return entries[issuer]


def _put(claims: dict[str, Any], path: str, value: str) -> None:
    """Sets a claim where the gateway looks for it: dots lead into objects. Raises CommandError."""
    *parents, name = path.split(".")
    for parent in parents:
        claims = claims.setdefault(parent, {})
        if not isinstance(claims, dict):
            raise CommandError(USAGE, f"No token has a claim {path!r}: {parent!r} holds no others.")
    claims[name] = value
