"""A small OpenID provider on a real socket: it logs a person in at once, and checks what a client has to prove.

OpenID Connect Core 1.0 (authorization code flow), RFC 7636 (PKCE, S256 alone), RFC 9207. It shares no code with the
gateway. A test changes its members to make it misbehave.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import jwt

from tests.streams import Request, accepting, http_reply, read_request
from tests.support.keys import jwk, private

OPENID, OAUTH = "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"


@dataclass
class Provider:
    """A provider with one client. `claims` are those of access tokens, `identity` of ID tokens; None leaves one out.

    `error`: what it answers instead of a code; `metadata`: members in place of its own; `described_at`: where those
    are; `is_away`: it hangs up.
    """

    url: str = ""
    client_id: str = "console"
    client_secret: str | None = None
    redirect_uri: str = "https://toolgate.test/console/login/done"
    claims: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    described_at: str = OPENID
    is_away: bool = False
    key: int = 0  # which of several keys signs
    has_answer_issuer: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)  # parameters of requests to log somebody in
    exchanged: list[Request] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def entry(self) -> dict[str, Any]:
        """It as an issuer in `auth.jwt`."""
        return {"issuer": self.url, "discovery": True, "algorithms": ["RS256"], "audience": ["toolgate"]}

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on one connection."""
        while not self.is_away:
            request = await read_request(reader)
            writer.write(self._answer(request))
            await writer.drain()

    def token(self, **claims: Any) -> str:
        """A token of its own with these claims, as far as they are not None."""
        now = int(time.time())
        body = {"iss": self.url, "sub": "ada", "iat": now, "exp": now + 300} | claims
        given = {name: value for name, value in body.items() if value is not None}
        return jwt.encode(given, private("rsa", self.key), "RS256", headers={"kid": "one"})

    def _answer(self, request: Request) -> bytes:
        parts = urlsplit(request.target)
        match request.method, parts.path:
            case "GET", path if path == self.described_at:
                return http_reply(200, self._described())
            case "GET", "/jwks":
                return http_reply(200, {"keys": [jwk("rsa", kid="one")]})
            case "GET", "/authorize":
                return self._log_in(dict(parse_qsl(parts.query, strict_parsing=True)))
            case "POST", "/token":
                return self._exchange(request)
        return http_reply(404, {})

    def _described(self) -> dict[str, Any]:
        own = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "authorization_response_iss_parameter_supported": self.has_answer_issuer,
            "code_challenge_methods_supported": ["S256"],
        }
        return own | self.metadata

    def _log_in(self, asked: dict[str, str]) -> bytes:
        """Asks nobody for a password."""
        self.asked.append(asked)
        fits = asked["client_id"] == self.client_id and asked["redirect_uri"] == self.redirect_uri
        if not fits or asked["response_type"] != "code" or asked["code_challenge_method"] != "S256":
            return http_reply(400, b"this is no request of a client that is known")
        answer = {"state": asked["state"]} | ({"iss": self.url} if self.has_answer_issuer else {})
        if self.error is not None:
            answer |= {"error": self.error, "error_description": "<b>no</b>"}
        else:
            answer["code"] = secrets.token_urlsafe(16)
            self._codes[answer["code"]] = asked
        return http_reply(302, b"", location=f"{self.redirect_uri}?{urlencode(answer)}")

    def _exchange(self, request: Request) -> bytes:
        """Each code counts once, for the client that asked, with the verifier of its challenge."""
        self.exchanged.append(request)
        form = dict(parse_qsl(request.body.decode(), strict_parsing=True))
        if self._client(request, form) != (self.client_id, self.client_secret):
            return http_reply(401, {"error": "invalid_client"})
        asked = self._codes.pop(form.get("code", ""), None)
        proof = urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if (
            asked is None
            or form["grant_type"] != "authorization_code"
            or form["redirect_uri"] != asked["redirect_uri"]
            or proof.decode() != asked["code_challenge"]
        ):
            return http_reply(400, {"error": "invalid_grant", "error_description": "<b>no</b>"})
        access = {"aud": "toolgate", "scope": asked["scope"]} | self.claims
        identity = {"aud": self.client_id, "nonce": asked["nonce"]} | self.identity
        tokens = {"access_token": self.token(**access), "id_token": self.token(**identity)}
        return http_reply(200, {"token_type": "Bearer", "expires_in": 300, **tokens})

    @staticmethod
    def _client(request: Request, form: dict[str, str]) -> tuple[str | None, str | None]:
        """Id and secret, from the header or from the body (RFC 6749, section 2.3.1)."""
        kind, _, pair = (request.header("authorization") or "").partition(" ")
        if kind != "Basic":
            return form.get("client_id"), form.get("client_secret")
        name, _, secret = b64decode(pair).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)


@asynccontextmanager
async def openid_provider() -> AsyncIterator[Provider]:
    """Runs one on a free port."""
    provider = Provider()
    async with accepting(provider.converse) as port:
        provider.url = f"http://127.0.0.1:{port}"
        yield provider
