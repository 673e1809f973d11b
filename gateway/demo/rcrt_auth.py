"""Tokens of the RCRT demonstration server: anybody may have one minted, every identity for the asking.

Follows `POST /auth/token` of RCRT: RS256, the claims `sub`, `owner_id` and `roles`, errors as plain text.
"""

from __future__ import annotations

import hmac
import time
import uuid
from functools import cached_property

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jsonschema_rs import Draft202012Validator
from jwt.types import Options
from starlette.exceptions import HTTPException
from starlette.requests import Request

from gateway.demo.faults import Faults
from gateway.demo.rcrt_store import Actor
from gateway.demo.service import Site
from gateway.demo.toolbox import Json, JsonObject

OWNER_ID = "00000000-0000-0000-0000-000000000001"  # the one tenant there is at the start
DEMO_AGENT_ID = "00000000-0000-0000-0000-0000000000d0"  # who acts with the token of the command line
ALL_ROLES = ("curator", "emitter", "subscriber")
DEFAULT_TTL_S = 3600
LEEWAY_S = 60  # of the library the real server verifies with
MAX_TENANTS = 100
EXPIRED_AGO_S = LEEWAY_S + 60

TOKEN_FAULTS = {
    "status_503",  # as a server without a key
    "expired",  # a token that nobody accepts any more
    "short_lived",  # `exp` is `seconds` ahead; it is accepted for the leeway longer
}
AUTH_FAULTS = {"status_401"}  # to a token that is still good

TOKEN_REQUEST = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "owner_id": {"type": "string"},
            "agent_id": {"type": "string"},
            "roles": {"type": ["array", "null"], "items": {"type": "string", "maxLength": 100}, "maxItems": 20},
            "ttl_sec": {"type": ["integer", "null"], "minimum": -(10**9), "maximum": 10**9},
        },
        "required": ["owner_id", "agent_id"],
    }
)


class Gate:
    """Mints tokens and knows who holds one. With `--token` minting asks for that token, which also opens all else."""

    def __init__(self, site: Site, faults: Faults, *, disabled: bool) -> None:
        self._site = site
        self._faults = faults
        self._disabled = disabled
        self._tenants = {OWNER_ID}

    @cached_property
    def _key(self) -> RSAPrivateKey:
        """Made when it is asked for: that takes as long as half the start, and many a server needs none."""
        return generate_private_key(public_exponent=65537, key_size=2048)

    def mint(self, request: Request, document: Json) -> JsonObject:
        """Raises: HTTPException."""
        if self._site.token is not None and not self._is_site_token(_bearer(request)):
            raise HTTPException(401, "missing Authorization")
        fault = self._faults.take("token", TOKEN_FAULTS)
        if fault is not None and fault.name == "status_503":
            raise HTTPException(503, "JWT signing is not configured")
        if not TOKEN_REQUEST.is_valid(document):
            raise HTTPException(422, "Failed to deserialize the JSON body into the target type")
        owner_id, agent_id = _uuid(document, "owner_id"), _uuid(document, "agent_id")
        roles = list(ALL_ROLES) if document.get("roles") is None else document["roles"]
        now = int(time.time())
        lifetime_s = DEFAULT_TTL_S if document.get("ttl_sec") is None else document["ttl_sec"]
        if fault is not None:
            lifetime_s = int(fault.seconds) if fault.name == "short_lived" else -EXPIRED_AGO_S
        claims = {"sub": agent_id, "owner_id": owner_id, "roles": roles, "iat": now, "exp": now + int(lifetime_s)}
        token = jwt.encode(claims, self._key, algorithm="RS256")
        return {"token": token, "owner_id": owner_id, "agent_id": agent_id, "roles": roles, "exp": claims["exp"]}

    def identify(self, request: Request) -> Actor:
        """Who asks; the query is looked at only without the header. Raises HTTPException."""
        if self._disabled:
            return Actor(OWNER_ID, DEMO_AGENT_ID, ALL_ROLES)
        if self._faults.take("auth", AUTH_FAULTS):
            raise HTTPException(401, "invalid token: InvalidSignature")
        token = _bearer(request)
        if token is None:
            raise HTTPException(401, "missing Authorization")
        if self._is_site_token(token):
            return Actor(OWNER_ID, DEMO_AGENT_ID, ALL_ROLES)
        try:
            # `iat` may lie a leeway ahead of our clock; the real server does not look at it.
            options: Options = {"verify_iat": False}
            claims = jwt.decode(token, self._key.public_key(), ["RS256"], options, leeway=LEEWAY_S)
        except jwt.InvalidTokenError as exc:
            raise HTTPException(401, f"invalid token: {type(exc).__name__}") from None
        if claims["owner_id"] not in self._tenants:
            # The token is good, but writing down its agent fails.
            raise HTTPException(500, 'insert or update on table "agents" violates foreign key constraint')
        return Actor(claims["owner_id"], claims["sub"], tuple(claims["roles"]))

    def add_tenant(self, actor: Actor, tenant_id: str) -> None:
        """Raises: HTTPException."""
        if "curator" not in actor.roles:
            raise HTTPException(403, "curator role required")
        if len(self._tenants) >= MAX_TENANTS:
            raise HTTPException(500, "no room for more tenants")
        self._tenants.add(tenant_id)

    def _is_site_token(self, token: str | None) -> bool:
        known = self._site.token
        return known is not None and token is not None and hmac.compare_digest(token.encode(), known.encode())


def _bearer(request: Request) -> str | None:
    header = request.headers.get("authorization")
    if header is None:
        return request.query_params.get("access_token") or request.query_params.get("token")
    if not header.startswith("Bearer "):
        raise HTTPException(401, "invalid Authorization header")
    return header.removeprefix("Bearer ")


def _uuid(document: JsonObject, name: str) -> str:
    try:
        return str(uuid.UUID(document[name]))
    except ValueError:
        raise HTTPException(400, f"invalid {name} format") from None
