"""Which requests the console answers on the operators' listener: those of its own pages, at a host that is meant.

A page of another site may have its own name lead to this listener (DNS rebinding), or send requests that need no
permission of the browser. So the host has to be known, and the browser has to say that the request is of our origin.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from gateway.console.origin import host_of, refusal_of_other_site
from gateway.http.origins import AllowedHosts, is_address


def refusal(request: Request, known: AllowedHosts, *, is_page: bool) -> str | None:
    """Why a request is refused, in a sentence; None if it is not. `known` are host names besides addresses."""
    host = request.headers.get("host", "")
    if not is_known(host, known):
        return "The console is not served at this host name. Open it by its address, or add the name to console.hosts."
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():  # a proxy may have taken TLS off
        return "Pages of other origins may not use the console."
    return refusal_of_other_site(request, is_page=is_page)


def is_known(host: str, known: AllowedHosts) -> bool:
    """Whether a Host header names one of them, or an address, to which no name of another site can lead."""
    return is_address(host_of(host)) or known.allows(host.encode("latin-1"))
