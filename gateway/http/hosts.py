"""Which hosts a request may be for: a page may have had its own name lead here, a proxy may have mixed names up.

Starlette's TrustedHostMiddleware answers in plain text, in no dialect and without a code, also probes of `/health`.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.errors import ErrorCode, FixedError


class OtherHostError(FixedError):
    """A request for a host that is not served here."""

    code = ErrorCode.INVALID_REQUEST
    message = reason = "The Host header does not name a host that is served here."

    def __init__(self) -> None:
        pass


class AllowedHosts:
    """`names` are hosts, addresses, or `*.` and what all hosts of a domain end in."""

    def __init__(self, names: Iterable[str]) -> None:
        written = [host_of(name) for name in names]
        self._exact = frozenset(name.encode("ascii") for name in written if not name.startswith("*."))
        self._endings = tuple(name[1:].encode("ascii") for name in written if name.startswith("*."))

    def allows(self, header: bytes) -> bool:
        """Whether a Host header, empty if there is none, names one of them."""
        if header in self._exact:  # nearly always
            return True
        host = host_of(header.decode("latin-1")).encode("latin-1")
        return host in self._exact or (bool(self._endings) and host.endswith(self._endings))


def host_of(authority: str) -> str:
    """The host of `host:port` in the form in which hosts are compared; an IPv6 address without brackets."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    if authority.count(":") > 1:  # an IPv6 address as a configuration writes it
        return authority.lower()
    return authority.partition(":")[0].rstrip(".").lower()
