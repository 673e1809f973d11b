"""Settings of the console: where it is served, and how people log in to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import SecretStr

from gateway.configfile.sections import ListOf, Section, setting
from gateway.configfile.values import AnyText, Duration, Flag, Secret, Text
from gateway.configfile.web import EndpointUrl, HostName

SCOPE = r"[!#-\[\]-~]{1,256}"  # RFC 6749, appendix A.4

Scope = Annotated[str, Text(SCOPE, "must be one scope, without spaces", title="scope")]
Scopes = Annotated[str, Text(f"{SCOPE}( {SCOPE})*", "must be scopes, divided by single spaces", title="scopes")]


class ConsoleLoginSettings(Section):
    """How people log in to the public console: at an issuer of `auth.jwt` (OpenID Connect, with PKCE)."""

    issuer: AnyText = setting(
        ...,
        "The `issuer` of an entry of `auth.jwt` with `discovery` or `jwks_url`. Its access tokens say who may enter.",
    )
    client_id: AnyText = setting(..., "The name under which the console is registered there.")
    client_secret: Annotated[SecretStr, Secret()] | None = setting(
        None, "The secret of that registration. By default, the console is a client without one."
    )
    scope: Scope = setting(..., "The scope that a person needs, such as `toolgate:console`.")
    request: Scopes | None = setting(
        None,
        "The scopes that are asked of the issuer. By default, `openid` and `scope`. `openid` has to be among them.",
    )
    resource: EndpointUrl | None = setting(
        None, "What the access token is to be for (RFC 8707), if the issuer has to be told. By default, it is not."
    )
    session_s: Annotated[float, Duration("1m", "1d")] = setting(
        "8h", "How long a session lasts. A right that is withdrawn at the issuer holds until then."
    )

    @property
    def requested(self) -> str:
        """What is asked of the issuer."""
        return f"openid {self.scope}" if self.request is None else self.request

    def problems(self) -> Iterator[tuple[str, str]]:
        if "openid" not in self.requested.split(" "):
            yield "request", "must have openid among the scopes, for the login is one of OpenID Connect"


class ConsoleSettings(Section):
    """The console: pages that show operators what the gateway does."""

    enabled: Flag = setting(True, "Whether the listener for operators has it, at `/console`.")
    hosts: ListOf[HostName] = setting(
        [],
        "Host names under which browsers, and scrapers of `/metrics`, reach the listener for operators. Localhost and "
        "any IP address are always accepted.",
    )
    public: Flag = setting(
        False, "Whether the listener for callers has it, too, for people who log in. This needs `login`."
    )
    login: ConsoleLoginSettings | None = setting(None, "How people log in there.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.public and self.login is None:
            yield "public", "needs login beside it, or anybody could use the console"
        if self.public and not self.enabled:
            yield "public", "has no effect with enabled: false"
        if self.login is not None and not self.public:
            yield "login", "has no effect without public: true"
