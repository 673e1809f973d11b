"""Which requests to the public console come from its own pages (Fetch Metadata, RFC 6454)."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

OWN = ("same-origin", "none")  # `none`: typed in, or a bookmark
DEFAULT_PORTS = {"https": ":443", "http": ":80"}


class OwnOrigin:
    """The origin of a URL of ours, the only one that the console is served at."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url.lower())
        self._host = parts.hostname or ""
        self._origin = f"{parts.scheme}://{parts.netloc.removesuffix(DEFAULT_PORTS[parts.scheme])}"

    def refusal(self, request: Request, *, is_page: bool) -> str | None:
        """Why a request is refused, in a sentence; None if it is not.

        Links of other sites may lead to a page, as that of the issuer does, and to nothing else.
        """
        headers = request.headers
        if host_of(headers.get("host", "")) != self._host:
            return "The console is not served at this host."
        if headers.get("origin", self._origin).lower() != self._origin:
            return "Pages of other origins may not use the console."
        return refusal_of_other_site(request, is_page=is_page)


def refusal_of_other_site(request: Request, *, is_page: bool) -> str | None:
    """Why a request is refused that another site has led to; None if it is no such request, or a link to a page."""
    headers = request.headers
    if headers.get("sec-fetch-site", "none") in OWN:
        return None
    is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if is_page and is_visit and request.method in ("GET", "HEAD"):
        return None
    return "Pages of other sites may not use the console."


def host_of(authority: str) -> str:
    """The host of a Host header, in lower case; without brackets, as `urlsplit` has it."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].rstrip(".").lower()
