"""Which redirects are followed, and where they lead."""

from __future__ import annotations

import pytest

from gateway.net.client import Origin, Reply
from gateway.protocols.openapi.sources import redirected

HERE = Origin("https", "api.example", 443)


def led(location: str, status: int = 302, target: bytes = b"/v1/a/b?x=1", base: str = "/v1") -> str | None:
    found = redirected(Reply(status, ((b"location", location.encode("latin-1")),), b""), HERE, target, base)
    return None if found is None else found.decode()


FOLLOWED = {
    "/v1/c?y=2": "/v1/c?y=2",
    "c": "/v1/a/c",
    "../c": "/v1/c",
    "?y=2": "/v1/a/b?y=2",
    "https://api.example/v1/c#part": "/v1/c",
    "https://API.example:443/v1/c": "/v1/c",
    "//api.example/v1": "/v1",
    "/v1/a%20b/": "/v1/a%20b/",
    "/v1/a%2fb;c=1/d..e": "/v1/a%2fb;c=1/d..e",
    "/v1//a": "/v1//a",
}
LEFT = [
    "https://other.example/v1/c",
    "//other.example/v1/c",
    "http://api.example/v1/c",
    "https://api.example:444/v1/c",
    "https://user@api.example/v1/c",
    "https://api.example.evil/v1/c",
    "/v2/c",
    "/v10",
    "/",
    "../../../v2",
    "/v1/../v2",
    "/v1/%2e%2e/v2",
    "/v1/%252e%252e/v2",
    "/v1/..%2fv2",
    "/v1/..\\v2",
    "/v1/%5c..%5cv2",
    "/v1/..;/admin",
    "/v1/..;x=1/admin",
    "/v1/%2e%2e;/admin",
    "/v1/..%3b/admin",
    "/v1/%252e.;/admin",
    "/v1/..%20/admin",
    "/v1/..%00/admin",
    "/v1/%ef%bc%8e%ef%bc%8e/admin",
    "/v1/%c0%ae%c0%ae/admin",
    "/v1/a%2f..%2f..%2fadmin",
    "/v1/a b",
    "/v1/ä",
    "https://[::1/v1",
    "javascript:alert(1)",
    "/v1/" + "x" * 9000,
]


@pytest.mark.parametrize("location", FOLLOWED)
def test_openapi_46_a_redirect_leads_to_a_path_of_the_same_server(location: str) -> None:
    assert led(location) == FOLLOWED[location]


@pytest.mark.parametrize("location", LEFT)
def test_openapi_46_a_redirect_that_leads_elsewhere_is_not_followed(location: str) -> None:
    assert led(location) is None


@pytest.mark.parametrize("status", [200, 201, 300, 304, 305, 306, 400])
def test_other_statuses_are_no_redirects(status: int) -> None:
    assert led("/v1/c", status) is None
    assert redirected(Reply(302, (), b""), HERE, b"/v1/a") is None


def test_without_a_base_path_all_of_the_server_is_below() -> None:
    assert led("/v2", base="") == "/v2"
    assert led("/%2e%2e/v2", base="") is None
