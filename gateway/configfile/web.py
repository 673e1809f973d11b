"""What HTTP and TLS add to the kinds of values: URLs, names of headers, hosts, origins, networks and certificates."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import SecretStr

from gateway.configfile.cursor import Cursor
from gateway.configfile.sections import Section, setting
from gateway.configfile.substitution import InvalidValueError, Scalar, refers
from gateway.configfile.values import Flag, Secret, Text

# RFC 3986, without user information (credentials have keys of their own) and in lower-case schemes only.
ORIGIN = r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
PATH = r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"
QUERY = r"(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
KEY_IN_QUERY = re.compile(
    r"[?&]((api|access|auth|subscription)?[_-]?(key|token)|(client[_-]?)?secret|password|sig|signature)=(?P<value>[^&]+)",
    re.IGNORECASE,
)
PARTS = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/?]*)(:(?P<port>[0-9]+))?.*")

# Narrower than a token (RFC 9110, section 5.6.2): section 16.3.2.1 advises letters, digits and hyphens; underscores and
# dots are met. `*` is a token too, and looks like a pattern, which it is not.
HEADER_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,255}"

# Never passed on: the caller's credentials, the tool server's credentials, what belongs to one connection (RFC 9110,
# section 7.6.1), what describes a body that we encode anew, and what decides how the answer must be decoded.
OWN_HEADERS = frozenset(
    {"authorization", "cookie", "set-cookie", "oxp-api-key", "otc-api-key", "oxp-version"}
    | {"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
    | {"accept", "accept-encoding", "range"}
    | {"x-request-id", "traceparent", "tracestate"}  # sent on with every call
)
OWN_PREFIXES = ("proxy-", "content-")
HOST_NAME_MUST = "must be a host, *. before a domain, or an address, without a port"
PEM = "-----BEGIN "  # RFC 7468, section 2

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
MAPPED_BITS = 96  # in front of an IPv4 address inside of an IPv6 one: RFC 4291, section 2.5.5.2


def _base_url(text: str) -> str:
    """Without its trailing slash."""
    _check_authority(text)
    return text.rstrip("/")


def _endpoint_url(text: str) -> str:
    """As it stands: `/mcp` and `/mcp/` may be two things."""
    _check_authority(text)
    return text


def _host_name(text: str) -> str:
    if ":" in text or "[" in text:
        try:
            return str(ipaddress.IPv6Address(text.strip("[]")))
        except ValueError:
            raise InvalidValueError(HOST_NAME_MUST) from None
    return text.lower()


def _page_origin(text: str) -> str:
    """As browsers send it (RFC 6454 section 6.2): lower case, no default port."""
    origin = text.lower()
    for scheme, port in (("https://", ":443"), ("http://", ":80")):
        if origin.startswith(scheme):
            origin = origin.removesuffix(port)
    return origin


def _network(text: str) -> IpNetwork:
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        raise InvalidValueError("must be a network such as 10.0.0.0/8 or an address") from None
    network: IpNetwork = address.network
    if address.ip != network.network_address:
        raise InvalidValueError(f"has bits set beyond its length; the network is {network}")
    # Addresses of callers and proxies are compared as IPv4 where they are IPv4 inside of IPv6.
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            network = ipaddress.IPv4Network((mapped, network.prefixlen - MAPPED_BITS))
    if network.prefixlen == 0:
        raise InvalidValueError("trusts everybody, so that any caller could pass for any other")
    return network


def _authorization_url(text: str) -> str:
    if crosses_in_clear(text):
        raise InvalidValueError("must be an https URL; http is for loopback addresses only")
    return text


def _header_name(text: str) -> str:
    """In lower case."""
    name = text.lower()
    if is_own_header(name):
        raise InvalidValueError("must not be forwarded; the gateway sets or withholds this header itself")
    return name


class Url(Text):
    """A URL; a key in its query is a secret."""

    def holds_secret(self, raw: str) -> bool:
        return any(not refers(match["value"]) for match in KEY_IN_QUERY.finditer(raw))


def _url(pattern: str, must: str, convert: Callable[[str], str]) -> Url:
    return Url(pattern, must, convert, if_missing="https://missing.invalid")


# Where a server is: a path prefix at most.
BaseUrl = Annotated[
    str, _url(ORIGIN + PATH, "must be an http or https URL without user, query and fragment", _base_url)
]
# What a protocol without paths of its own is spoken at.
EndpointUrl = Annotated[
    str, _url(ORIGIN + PATH, "must be an http or https URL without user, query and fragment", _endpoint_url)
]
# The same, where a server wants to be told something in the query.
QueriedUrl = Annotated[
    str, _url(ORIGIN + PATH + QUERY, "must be an http or https URL without user and fragment", _endpoint_url)
]
# A server and nothing below it.
OriginUrl = Annotated[str, _url(ORIGIN + "/?", "must be an http or https URL without a path", _base_url)]
# Where a user is sent to grant access, or keys are fetched: https, or http on the machine itself.
AuthorizationUrl = Annotated[
    str, _url(ORIGIN + PATH + QUERY, "must be an https URL without user and fragment", _authorization_url)
]
# The same over http to anywhere, where a key beside it says that this is meant (`allow_http`).
FetchedUrl = Annotated[
    str, _url(ORIGIN + PATH + QUERY, "must be an https URL without user and fragment", _endpoint_url)
]
# A host as the Host header names it; `*.` stands for whatever is below a name.
HostName = Annotated[
    str,
    Text(r"(\*\.)?[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|\[[0-9A-Fa-f:.]+\]", HOST_NAME_MUST, _host_name),
]
# Where a web page comes from; `*` stands for every origin.
PageOrigin = Annotated[
    str,
    Text(
        r"\*|[A-Za-z][A-Za-z0-9+.-]*://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?",
        "must be an origin such as https://app.example.com, without a path, or '*'",
        _page_origin,
    ),
]
# The addresses that begin with the same bits, or one address. The one that stands in is for documentation (RFC 5737).
Network = Annotated[
    IpNetwork,
    Text(
        r"[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?",
        "must be a network such as 10.0.0.0/8 or an address",
        _network,
        title="network such as 10.0.0.0/8, or an address",
        if_missing=ipaddress.IPv4Network("192.0.2.0/24"),
    ),
]
# The name of a header that may be passed on.
HeaderName = Annotated[
    str, Text(HEADER_NAME, "must be the name of one header: letters, digits, and - _ .", _header_name)
]


def is_issuer_url(text: str, *, allow_http: bool = False) -> bool:
    """Whether an issuer can be asked for its keys below this URL: https, or http as far as allowed, and no query."""
    if re.fullmatch(ORIGIN + PATH, text) is None:
        return False
    try:
        return not crosses_in_clear(text) or allow_http
    except InvalidValueError:
        return False


def crosses_in_clear(url: str) -> bool:
    """Whether requests to a URL go unencrypted to another machine. Raises InvalidValueError."""
    scheme, host = _check_authority(url)
    return scheme == "http" and not is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether a host, as written in a URL, can only be this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_authority(url: str) -> tuple[str, str]:
    """Splits off scheme and host. Raises InvalidValueError for a port or an IPv6 address that cannot be."""
    parts = PARTS.fullmatch(url)
    assert parts is not None  # it matched the stricter pattern before
    if parts["port"] and not 1 <= int(parts["port"]) <= 65535:
        raise InvalidValueError("has a port that is not between 1 and 65535")
    if parts["host"].startswith("["):
        try:
            ipaddress.IPv6Address(parts["host"][1:-1])
        except ValueError:
            raise InvalidValueError("has brackets around what is no IPv6 address") from None
    return parts["scheme"], parts["host"]


# The value of a header, which may be a key: it is shown to nobody.
class _HeaderValue(Secret):
    title = "text of visible ASCII characters and spaces"

    def parse(self, scalar: Scalar) -> SecretStr:
        secret = super().parse(scalar)
        if re.fullmatch(r"[!-~]([ -~]*[!-~])?", scalar.text) is None:
            raise InvalidValueError("must be visible ASCII, with spaces at most inside, since it is sent in a header")
        return secret

    def holds_secret(self, raw: str) -> bool:
        return False  # most are none: the name of a tenant, a version


HeaderValue = Annotated[SecretStr, _HeaderValue()]
NAME_OF_HEADER = Text(HEADER_NAME, "must be the name of one header: letters, digits, and - _ .")


def is_own_header(name: str) -> bool:
    """Whether the gateway itself sets a header, in lower case, or withholds it."""
    return name in OWN_HEADERS or name.startswith(OWN_PREFIXES)


class FilePath(str):
    """The path of a regular file that could be read when the configuration was."""

    __slots__ = ()


def readable_file(value: str, cursor: Cursor) -> FilePath:
    """A relative path starts where the configuration lies; a file may be absent wherever variables may.

    Problems quote what the configuration says: a variable may hold the key itself.
    """
    if PEM in value:
        raise InvalidValueError("holds a certificate or a key itself; it must be the path of the file that does")
    substitution = cursor.context.substitution
    path = substitution.base / value
    cursor.context.files[str(path)] = None
    try:
        if path.is_file():
            path.open("rb").close()
        elif path.exists() or not substitution.allow_missing:
            raise InvalidValueError(f"names no file: {cursor.raw!r} does not exist or is no regular file")
    except OSError as exc:
        raise InvalidValueError(f"names a file that cannot be read: {exc.strerror}") from None
    return FilePath(path)


File = Annotated[FilePath, Text(title="path of a file", resolve=readable_file)]


class TlsSettings(Section):
    """Authorities for a server's certificate, and the gateway's own certificate. The files are in PEM."""

    ca: File | None = setting(
        None,
        "Certificates of the authorities that may have signed the server's certificate. By default, those that "
        "the system trusts.",
    )
    cert: File | None = setting(None, "The gateway's own certificate and its chain.")
    key: File | None = setting(None, "The private key of the gateway's certificate, without a passphrase.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.ca is not None and not _holds_certificates(self.ca):
            yield "ca", "holds no certificate in PEM"
        if (self.cert is None) != (self.key is None):
            yield "cert" if self.key is None else "key", "needs the other one of cert and key"
        elif self.cert and self.key and not _belong_together(self.cert, self.key):
            yield "cert", "and key are no certificate in PEM and its private key without a passphrase"


class ServerTlsSettings(Section):
    """TLS for callers. The files are in PEM, and are read again whenever the configuration is."""

    cert: File = setting(..., "The gateway's certificate with its chain.")
    client_ca: File | None = setting(
        None,
        "Certificates of the authorities that sign callers' certificates. By default, callers need no certificate.",
    )
    require_client_cert: Flag = setting(True, "With `client_ca`: whether a caller without a certificate is refused.")
    key: File = setting(..., "The private key of the certificate, without a passphrase.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if not _belong_together(self.cert, self.key):
            yield "cert", "and key are no certificate in PEM and its private key without a passphrase"
        if self.client_ca is None:
            if "require_client_cert" in self.model_fields_set:
                yield "require_client_cert", "has no effect without client_ca"
        elif not _holds_certificates(self.client_ca):
            yield "client_ca", "holds no certificate in PEM"


def _holds_certificates(path: str) -> bool:
    """Whether a file holds certificates in PEM; true for one that is absent, which was allowed."""
    return _loads(ssl.SSLContext.load_verify_locations, path)


def _belong_together(cert: str, key: str) -> bool:
    """Whether two files are a certificate and its key; true if one is absent, which was allowed."""
    # A passphrase is given, if only an empty one: else OpenSSL asks for one on the terminal.
    return _loads(ssl.SSLContext.load_cert_chain, cert, key, "")


def _loads(load: Callable[..., None], *arguments: str) -> bool:
    if not all(Path(path).is_file() for path in arguments if path):
        return True
    try:
        load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), *arguments)
    except OSError:  # ssl.SSLError is one
        return False
    return True
