"""Which versions of the standard's version are accepted, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.wire import Head
from gateway.protocols.otc import surface as otc_surface
from tests.wire import DIALECTS

RFC_URL = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OTC_URLS = [
    "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json",
    "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json",
]
# The first is the dialect's own, spoken to callers that name none. OXP's pages never renamed the address of OTC.
VERSIONS = {
    "rfc": [RFC_URL],
    "otc": ["otc://1.0", *OTC_URLS],
    "oxp-env": ["urn:oxp:1.0", *OTC_URLS],
    "lc": ["otc://1.0", "urn:oxp:1.0", *OTC_URLS],
}
ACCEPTED = [(name, version) for name, versions in VERSIONS.items() for version in versions]
FOREIGN = [("rfc", "otc://1.0"), ("otc", "urn:oxp:1.0"), ("oxp-env", "otc://1.0"), ("lc", RFC_URL)]


def head(method: str = "POST", **headers: str) -> Head:
    return Head(
        method=method,
        path="/tools/call" if method == "POST" else "/tools",
        headers={name.replace("_", "-").encode(): value.encode() for name, value in headers.items()},
    )


def refused(name: str, document: Any, head_: Head | None = None) -> None:
    with pytest.raises(GatewayError) as caught:
        otc_surface.DIALECTS[name].negotiate(head_ or head(), document)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("name", "version"), ACCEPTED)
def test_every_version_is_accepted_and_kept(name: str, version: str) -> None:
    assert otc_surface.DIALECTS[name].negotiate(head(), {"$schema": version, "request": {}}) == version


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1"])
def test_every_version_in_the_header_is_accepted_and_kept(version: str) -> None:
    assert otc_surface.OXP.negotiate(head(oxp_version=version), {}) == version


@pytest.mark.parametrize("name", DIALECTS)
def test_without_a_version_the_latest_is_meant(name: str) -> None:
    dialect = otc_surface.DIALECTS[name]
    own = VERSIONS.get(name, ["1.0"])[0]
    assert dialect.negotiate(head(), {"request": {}}) == own == dialect.canonical


def test_a_list_without_a_body_means_the_latest_too() -> None:
    assert otc_surface.OTC.negotiate(head(), None) == "otc://1.0"


UNSUPPORTED: list[Any] = [
    *("otc://9.9", "otc://1.1", "otc://1.0.0", "otc://1.0-evil", "OTC://1.0", " otc://1.0", "otc://1.0\n"),
    *("urn:oxp:2.0", "urn:oxp:1", "1.0", "", RFC_URL.replace("1.0", "2.0"), OTC_URLS[0] + "/"),
    *(None, 1.0, ["otc://1.0"]),
]


@pytest.mark.parametrize("version", UNSUPPORTED, ids=repr)
@pytest.mark.parametrize("name", VERSIONS)
def test_a_near_miss_is_refused(name: str, version: Any) -> None:
    refused(name, {"$schema": version})


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_near_miss_in_the_body_of_a_flat_list_is_refused_too(method: str) -> None:
    """Ours: of two carriers both are checked; flat OXP has its version in the header."""
    for version in ("otc://1.1", "", None):
        refused("oxp", {"$schema": version}, head(method, oxp_version="1.0"))


@pytest.mark.parametrize("version", sorted({version for _, version in ACCEPTED}))
def test_a_flat_list_may_name_any_version_in_its_body_and_is_answered_in_that_of_its_header(version: str) -> None:
    assert otc_surface.OXP.negotiate(head("GET", oxp_version="1.0.0"), {"$schema": version}) == "1.0.0"
    assert otc_surface.OXP.negotiate(head("GET"), {"$schema": version}) == "1.0"


@pytest.mark.parametrize(("name", "version"), FOREIGN)
def test_under_a_prefix_the_version_of_another_dialect_is_refused(name: str, version: str) -> None:
    refused(name, {"$schema": version})


@pytest.mark.parametrize("value", ["7", "", "v1.0", "1.0-evil", "1.0, 1.0", "1.0,2.0", " 1.0", "1.1", "1.0.0.0", "01"])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_header_we_do_not_speak_is_refused_whatever_the_body_says(name: str, value: str) -> None:
    refused(name, {"$schema": otc_surface.DIALECTS[name].canonical, "request": {}}, head(oxp_version=value))


def test_both_carriers_are_checked_and_the_shape_picks_the_one_that_is_echoed() -> None:
    assert otc_surface.OTC.negotiate(head(oxp_version="1"), {"$schema": "otc://1.0"}) == "otc://1.0"
