"""Settings of credentials for APIs: HTTP's own, and keys wherever an API wants them (OpenAPI 3.2, Security Scheme)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.configfile.sections import ByName, ByOnlyKey, Section, setting
from gateway.configfile.values import Choice, Secret, Text
from gateway.core.wire import is_token
from gateway.upstream.settings import BearerAuthSettings, HeaderAuthSettings, JwtAuthSettings, OAuthAuthSettings

KeyPlace = Literal["header", "query", "cookie"]
AUTHORIZATION = "authorization"
OF_HTTP = frozenset({"cookie", "host", "connection", "content-length", "content-type", "transfer-encoding"})
NOT_IN_COOKIES = frozenset('",;\\')  # besides blanks and control characters: RFC 6265, section 4.1.1

SCHEME = Text(r"[^\x00-\x20\x7f]{1,256}", "must be the name of a security scheme: 1 to 256 characters without spaces")


class LoginSettings(Section):
    """A user and a password."""

    user: Annotated[str, Text(r"[^\x00-\x1f\x7f:]{1,256}", "must be a user's name, without a colon")] = setting(
        ..., "The name of the gateway's user."
    )
    password: Annotated[SecretStr, Secret()] = setting(..., "The password of that user.")


class BasicAuthSettings(Section):
    """HTTP basic authentication, in `Authorization: Basic`."""

    basic: LoginSettings = setting(..., "The user and the password.")


class PlacedKeySettings(Section):
    """A key, and its place in a request."""

    where: Choice[KeyPlace] | None = setting(
        None, "Where the key is sent. By default, where the document says.", alias="in"
    )
    name: (
        Annotated[str, Text(r"[!-~]{1,256}", "must be the name of a header, a query parameter or a cookie")] | None
    ) = setting(None, "The name of that header, query parameter or cookie. By default, the one in the document.")
    value: Annotated[SecretStr, Secret(header=True)] = setting(..., "The key.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if (self.where is None) != (self.name is None):
            yield "name" if self.where is None else "where", "needs the other one of in and name"
        if self.where in ("header", "cookie") and not is_token(self.name or "x"):
            yield "name", f"must be the name of a {self.where}: letters, digits, and - _ . mostly"
        if self.where == "header" and (self.name or "").lower() in OF_HTTP:
            yield "name", f"must not be {self.name}, which HTTP itself needs; a cookie has 'in: cookie'"
        if self.where == "cookie" and NOT_IN_COOKIES & set(self.value.get_secret_value()):
            yield "value", 'must have none of the characters " , ; \\ since it is sent in a cookie'


class PlacedKeyAuthSettings(Section):
    """A fixed key in a header, in the query or in a cookie."""

    api_key: PlacedKeySettings = setting(..., "The key, and its place in a request.")


OneCredential = (
    BearerAuthSettings
    | BasicAuthSettings
    | PlacedKeyAuthSettings
    | HeaderAuthSettings
    | JwtAuthSettings
    | OAuthAuthSettings
)


class SchemesAuthSettings(Section):
    """Several credentials. Each operation gets the one for the security scheme that it asks for."""

    schemes: Annotated[Mapping[str, Annotated[OneCredential, ByOnlyKey()]], ByName(SCHEME)] = setting(
        ..., "The credentials, by the names of the security schemes in the document."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.schemes:
            yield "schemes", "must have at least one security scheme"


OpenApiAuthSettings = (
    BearerAuthSettings
    | BasicAuthSettings
    | PlacedKeyAuthSettings
    | HeaderAuthSettings
    | JwtAuthSettings
    | OAuthAuthSettings
    | SchemesAuthSettings
)
DocumentAuthSettings = BearerAuthSettings | BasicAuthSettings | HeaderAuthSettings


def header_of(auth: OpenApiAuthSettings | None) -> str:
    """The header that a credential goes into, in lower case; empty if it is in the query, or the document decides."""
    match auth:
        case None | SchemesAuthSettings():
            return ""
        case HeaderAuthSettings(header=own):
            return own.name.lower()
        case PlacedKeyAuthSettings(api_key=key):
            return {"header": (key.name or "").lower(), "cookie": "cookie"}.get(key.where or "", "")
    return AUTHORIZATION
