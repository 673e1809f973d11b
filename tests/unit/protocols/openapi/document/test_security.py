"""Which credentials calls take, by what a document asks for and what the backend and its callers have."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.model import AuthorizationRequirement, Requirements
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.plan import Access, KeyPlace, LentCredential
from gateway.protocols.openapi.document.security import access_of, credential_names
from tests.unit.protocols.openapi.document import documents

SCHEMES = {
    "Bearer": {"type": "http", "scheme": "Bearer"},
    "Basic": {"type": "http", "scheme": "basic"},
    "Digest": {"type": "http", "scheme": "digest"},
    "Tls": {"type": "mutualTLS"},
    "Key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "Other": {"type": "apiKey", "in": "header", "name": "X-Other"},
    "Raw": {"type": "apiKey", "in": "header", "name": "AUTHORIZATION"},
    "Query": {"type": "apiKey", "in": "query", "name": "api key"},
    "Cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "OAuth": {"type": "oauth2", "flows": {}},
    "Oidc": {"type": "openIdConnect"},
    "Alias": {"$ref": "#/components/securitySchemes/Key"},
    "Host": {"type": "apiKey", "in": "header", "name": "Host"},
    "Split": {"type": "apiKey", "in": "header", "name": "A\r\nB"},
    "Loop": {"$ref": "#/components/securitySchemes/Loop"},
    "Odd": 7,
}
AS_IS, NONE = Access(), Access(schemes=())


DOCUMENT = documents.document({}, components={"securitySchemes": SCHEMES})


def found(security: Any, **terms: Any) -> tuple[Access, Requirements, tuple[str, ...]]:
    operation = Operation(method="GET", template="/", prefix="", security=security)
    return access_of(operation, DOCUMENT, documents.terms(**terms))


BEARER: dict[str, Any] = {"auth": "bearer", "auth_header": "authorization"}
BASIC: dict[str, Any] = {"auth": "basic", "auth_header": "authorization"}
X_KEY: dict[str, Any] = {"auth": "api_key", "auth_header": "x-key", "auth_in": "header", "auth_name": "X-KEY"}
IN_QUERY: dict[str, Any] = {"auth": "api_key", "auth_in": "query", "auth_name": "api key"}
BOTH: dict[str, Any] = {"auth": "schemes", "schemes": ("Key", "Other")}
ANYWHERE: dict[str, Any] = {"auth": "api_key"}
KEY, OTHER = (
    KeyPlace(where="header", name="X-Key", scheme="Key"),
    KeyPlace(where="header", name="X-Other", scheme="Other"),
)

OWN: dict[str, tuple[Any, dict[str, Any], Access]] = {
    "a document that says nothing": (None, BEARER, AS_IS),
    "53: nothing needed": ([], BEARER, NONE),
    "53: nothing needed, in words": ([{}], BEARER, NONE),
    "nothing would do, but there is one": ([{}, {"Bearer": []}], BEARER, AS_IS),
    "nothing would do, and there is none": ([{"Key": []}, {}], BEARER, NONE),
    "bearer": ([{"Bearer": []}], BEARER, AS_IS),
    "basic": ([{"Basic": []}], BASIC, AS_IS),
    "a token of OAuth": ([{"OAuth": ["read"]}], BEARER, AS_IS),
    "a token of OpenID Connect": ([{"Oidc": []}], BEARER, AS_IS),
    "a key that is called Authorization": ([{"Raw": []}], BEARER, AS_IS),
    "a key in a header of any case": ([{"Key": []}], X_KEY, AS_IS),
    "a scheme that refers to another": ([{"Alias": []}], X_KEY, AS_IS),
    "a key in the query": ([{"Query": []}], IN_QUERY, Access(key_names=("api key",))),
    "a header of the operator's": ([{"Key": []}], {"auth": "header", "auth_header": "x-key"}, AS_IS),
    "52: one of two": ([{"Basic": []}, {"Bearer": []}], BEARER, AS_IS),
    "52: two keys": ([{"Key": [], "Other": []}], BOTH, Access(schemes=("Key", "Other"), keys=(KEY, OTHER))),
    "52: one key of two": ([{"Other": []}], BOTH, Access(schemes=("Other",), keys=(OTHER,))),
    "52: the first that is there": (
        [{"Key": [], "Bearer": []}, {"Key": []}],
        BOTH,
        Access(schemes=("Key",), keys=(KEY,)),
    ),
    "a key wherever the document says": ([{"Other": []}], ANYWHERE, Access(keys=(replace(OTHER, scheme=""),))),
    "several, and the document says nothing": (None, BOTH, NONE),
}


@pytest.mark.parametrize(("security", "terms", "access"), OWN.values(), ids=OWN)
def test_openapi_52_53_the_first_alternative_with_all_its_credentials_is_taken(
    security: Any, terms: dict[str, Any], access: Access
) -> None:
    assert found(security, **terms) == (access, Requirements(), ())


@pytest.mark.parametrize(
    ("security", "terms", "reason"),
    [
        ([{"Digest": []}], BEARER, "Digest needs a credential, and none is configured"),
        ([{"Tls": []}], BASIC, "Tls needs"),
        ([{"Key": []}], IN_QUERY, "Key needs"),
        ([{"Basic": []}], BEARER, "Basic needs"),
        ([{"Bearer": []}], BASIC, "Bearer needs"),
        ([{"Key": [], "Alias": []}], X_KEY, "Key and Alias would be sent in the same place"),
        ([{"Host": []}], X_KEY, "Host needs"),
        ([{"Split": []}], X_KEY, "Split needs"),
        ([{"Nobody": []}], X_KEY, "Nobody is no security scheme of the document"),
        ([{"Loop": []}], X_KEY, "Loop is no security scheme of the document"),
        ([{"Odd": []}], X_KEY, "Odd is no security scheme of the document"),
        ([{"Basic": []}], {"lent_tokens": {"Basic": "github"}}, "Basic needs a credential that callers cannot supply"),
        (
            [{"OAuth": [], "Basic": []}],
            BASIC | {"lent_tokens": {"OAuth": "github"}},
            "OAuth and Basic would be sent in the same place",
        ),
    ],
)
def test_what_nobody_has_is_told_and_auth_goes_along_as_it_is(
    security: Any, terms: dict[str, Any], reason: str
) -> None:
    access, requires, notes = found(security, **terms)
    assert (replace(access, key_names=()), requires) == (AS_IS if "auth" in terms else NONE, Requirements())
    assert len(notes) == 1
    assert reason in notes[0]


LENT = {
    "54: a token with scopes": (
        [{"OAuth": ["repo", "gist"]}],
        {"lent_tokens": {"OAuth": "github"}} | BEARER,
        Access(schemes=(), lent=(LentCredential(id="github"),)),
        Requirements(authorization=(AuthorizationRequirement(id="github", scopes=("repo", "gist")),)),
    ),
    "54: a token as a bearer": (
        [{"Bearer": []}],
        {"lent_tokens": {"Bearer": "acme"}},
        Access(schemes=(), lent=(LentCredential(id="acme"),)),
        Requirements(authorization=(AuthorizationRequirement(id="acme"),)),
    ),
    "a secret in the query, and a key of ours": (
        [{"Query": [], "Key": []}],
        {"lent_secrets": {"Query": "ACME_KEY"}} | X_KEY,
        Access(
            lent=(LentCredential(id="ACME_KEY", is_secret=True, where="query", name="api key"),), key_names=("api key",)
        ),
        Requirements(secrets=("ACME_KEY",)),
    ),
    "a secret in a cookie, and one of several of ours": (
        [{"Cookie": [], "Key": []}],
        {"lent_secrets": {"Cookie": "SID"}} | BOTH,
        Access(
            schemes=("Key",),
            keys=(KEY,),
            lent=(LentCredential(id="SID", is_secret=True, where="cookie", name="sid"),),
            key_names=("sid",),
        ),
        Requirements(secrets=("SID",)),
    ),
}


@pytest.mark.parametrize(("security", "terms", "access", "requires"), LENT.values(), ids=LENT)
def test_openapi_54_what_callers_lend_is_required_of_them(
    security: Any, terms: dict[str, Any], access: Access, requires: Requirements
) -> None:
    assert found(security, **terms) == (access, requires, ())


def test_openapi_27_no_argument_stands_where_a_credential_may() -> None:
    security: Any = [{"Key": []}, {"Cookie": [], "Query": []}, {"Nobody": []}]
    operation = Operation(method="GET", template="/", prefix="", security=security)
    terms = documents.terms(auth="header", auth_header="x-own")
    assert credential_names(operation, DOCUMENT, terms) == {
        *(("header", "authorization"), ("header", "x-own"), ("header", "x-key")),
        *(("cookie", "sid"), ("query", "api key")),
    }


@pytest.mark.parametrize(
    ("schemes", "access"),
    [
        (("Query",), Access(keys=(KeyPlace(where="query", name="api key"),))),
        (("Key", "Alias", "Bearer"), Access(keys=(KeyPlace(where="header", name="X-Key"),))),
        (("Key", "Other"), NONE),
        ((), NONE),
    ],
)
def test_a_key_without_a_place_goes_where_the_only_key_of_the_document_does(
    schemes: tuple[str, ...], access: Access
) -> None:
    document = documents.document({}, components={"securitySchemes": {name: SCHEMES[name] for name in schemes}})
    operation = Operation(method="GET", template="/", prefix="")
    found, _, notes = access_of(operation, document, documents.terms(**ANYWHERE))
    assert found == access
    assert (access == NONE) is ("does not say where the key goes" in " ".join(notes))
