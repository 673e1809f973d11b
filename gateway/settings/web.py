"""What HTTP adds to the kinds of values: URLs and names of headers."""

from __future__ import annotations

import ipaddress
import re

from gateway.settings.kinds import SecretText, Text
from gateway.settings.reading import Written
from gateway.settings.secret import Secret
from gateway.settings.substitution import UnfitError

# RFC 3986, without user information (credentials have keys of their own) and in lower-case schemes only.
ORIGIN = r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
PATH = r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"
QUERY = r"(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
PARTS = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/?]*)(:(?P<port>[0-9]+))?.*")

HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}"  # RFC 9110, section 5.6.2

# Never passed on: the caller's credentials, the tool server's credentials, what belongs to one connection (RFC 9110,
# section 7.6.1), what describes a body that we encode anew, and what decides how the answer must be decoded.
OWN_HEADERS = frozenset(
    {"authorization", "cookie", "set-cookie", "oxp-api-key", "otc-api-key", "oxp-version"}
    | {"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
    | {"accept", "accept-encoding", "range"}
)
OWN_PREFIXES = ("proxy-", "content-")


class BaseUrl(Text):
    """Where a server is: http or https, a path prefix at most; read without its trailing slash."""

    def __init__(self) -> None:
        super().__init__(ORIGIN + PATH, "must be an http or https URL without user, query and fragment")

    def parse(self, written: Written) -> str:
        url = super().parse(written)
        _check_authority(url)
        return url.rstrip("/")

    def stand_in(self, raw: str) -> str:
        return "http://missing.invalid"


class OriginUrl(BaseUrl):
    """A server and nothing below it."""

    def __init__(self) -> None:
        Text.__init__(self, ORIGIN + "/?", "must be an http or https URL without a path")


class AuthorizationUrl(Text):
    """Where a user is sent to grant access: https, or http on the machine itself."""

    def __init__(self) -> None:
        super().__init__(ORIGIN + PATH + QUERY, "must be an https URL without user and fragment")

    def parse(self, written: Written) -> str:
        url = super().parse(written)
        scheme, host = _check_authority(url)
        if scheme == "http" and not is_loopback(host):
            raise UnfitError("must be an https URL; http is for loopback addresses only")
        return url

    def stand_in(self, raw: str) -> str:
        return "https://missing.invalid"


class HeaderName(Text):
    """The name of a header that may be passed on, in lower case."""

    def __init__(self) -> None:
        super().__init__(HEADER_NAME, "must be the name of a header")

    def parse(self, written: Written) -> str:
        name = super().parse(written).lower()
        if name in OWN_HEADERS or name.startswith(OWN_PREFIXES):
            raise UnfitError("must not be forwarded; the gateway sets or withholds this header itself")
        return name


def is_loopback(host: str) -> bool:
    """Whether a host, as written in a URL, can only be this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_authority(url: str) -> tuple[str, str]:
    """Splits off scheme and host. Raises UnfitError for a port or an IPv6 address that cannot be."""
    parts = PARTS.fullmatch(url)
    assert parts is not None  # it matched the stricter pattern before
    if parts["port"] and not 1 <= int(parts["port"]) <= 65535:
        raise UnfitError("has a port that is not between 1 and 65535")
    if parts["host"].startswith("["):
        try:
            ipaddress.IPv6Address(parts["host"][1:-1])
        except ValueError:
            raise UnfitError("has brackets around what is no IPv6 address") from None
    return parts["scheme"], parts["host"]


class RedisUrl(SecretText):
    """Where Redis is; a secret, because it may hold a password."""

    FORM = re.compile(
        r"rediss?://([^@/?#\s]*@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[0-9]{0,3})?"
    )

    def parse(self, written: Written) -> Secret:
        secret = super().parse(written)
        if self.FORM.fullmatch(secret.reveal()) is None:
            raise UnfitError("must be a URL such as redis://localhost:6379/0 or rediss://user:password@host:6380/0")
        return secret

    def stand_in(self, raw: str) -> Secret:
        return Secret("redis://localhost:6379/0")


def is_local_redis(url: str) -> bool:
    """Whether what is sent there stays on this machine."""
    match = RedisUrl.FORM.fullmatch(url)
    return match is not None and is_loopback(match["host"].strip("[]"))
