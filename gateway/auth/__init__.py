"""Authentication of callers: bearer tokens of several issuers, API keys, or none."""

from __future__ import annotations

from gateway.auth.authentication import ApiKey, Authentication, NoAuthentication
from gateway.auth.issuers import FixedKeys, JwtIssuer, Keys
from gateway.auth.refusals import Reason
from gateway.auth.remote import IssuerStatus, RemoteKeys

__all__ = [
    "ApiKey",
    "Authentication",
    "FixedKeys",
    "IssuerStatus",
    "JwtIssuer",
    "Keys",
    "NoAuthentication",
    "Reason",
    "RemoteKeys",
]
