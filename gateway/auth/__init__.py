"""Authentication of callers: bearer tokens of several issuers, API keys, or none."""

from __future__ import annotations

from gateway.auth.authentication import ApiKey, Authentication, NoAuthentication
from gateway.auth.keys import Keys
from gateway.auth.refusals import Reason
from gateway.auth.remote import IssuerStatus, RemoteKeys
from gateway.auth.tokens import JwtIssuer

__all__ = ["ApiKey", "Authentication", "IssuerStatus", "JwtIssuer", "Keys", "NoAuthentication", "Reason", "RemoteKeys"]
