"""What a file says about a document reaches the package that reads it, as that package has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.core.jsontext import encode
from gateway.protocols.openapi.document.curation import Match, Terms, ToolTerms
from gateway.protocols.openapi.document.tools import decode_terms
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.protocols.openapi.terms import terms_of
from gateway.settings.load import read

FULL = """
    urls: [http://a/api, http://b/api]
    document: docs/api.yaml
    references: files
    base_path: /v2/
    version: 1.10
    toolkit: Shop
    discovery: {max_tools: 7, max_schema: 2KiB}
    auth: {schemes: {A: {bearer: one}, B: {api_key: {value: two}}}}
    caller_tokens: {C: google}
    caller_secrets: {D: KEY}
    operations:
      methods: [get, all, purge]
      include: [{operation: "a*", tag: t, path: "/p/*", method: get, deprecated: true}]
      exclude: [{method: PURGE}]
      include_deprecated: true
      max: 3
    arguments: {a: 1, b: "1", c: [true, null, 1.5e3, {d: no}], e: "${env:TEXT}", /body/x: 2024-01-02}
    tools:
      GET /x:
        name: x
        description: X.
        arguments: {y: -0.5}
        hide: [z, /body/w]
        select: /items/0
        response_headers: [Link]
        media_type: text/csv
        encoded_slashes: [path]
        unsafe: true
    output_schemas: none
    deep_arrays: indexes
    idempotency_key: {header: X-Once, form: bare}
    max_binary: 2KiB
"""


def terms(text: str, base: Path = Path()) -> Terms:
    """What the reader of documents gets, in whose process nothing else is known."""
    config = read(f"auth: none\nbackends:\n  shop:\n    protocol: openapi{text}", base=base, env={"TEXT": "7"})
    settings: Any = config.backends["shop"]
    assert isinstance(settings, OpenApiBackendSettings)
    return decode_terms(encode(terms_of(settings, "shop")))


def test_openapi_16_all_that_an_operator_says_arrives(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/api.yaml").touch()
    found = terms(FULL, tmp_path)
    assert (found.url, found.base_path, found.folder) == ("http://a/api", "/v2", str(tmp_path / "docs"))
    assert (found.version, found.bounds.toolkit, found.bounds.max_schema_bytes) == ("1.10.0", "Shop", 2048)
    assert (found.methods, found.max_operations) == (("GET", "ALL", "PURGE"), 3)
    assert found.include == (Match(operation="a*", tag="t", path="/p/*", method="GET", deprecated=True),)
    assert (found.exclude, found.include_deprecated) == ((Match(method="PURGE"),), True)
    assert found.arguments == {
        "a": 1,
        "b": "1",
        "c": [True, None, 1500.0, {"d": "no"}],  # as YAML 1.2 and JSON have it
        "e": "7",  # what is put in is text
        "/body/x": "2024-01-02",
    }
    assert found.tools == {
        "GET /x": ToolTerms(
            name="x",
            description="X.",
            arguments={"y": -0.5},
            hide=("z", "/body/w"),
            select="/items/0",
            response_headers=("link",),
            media_type="text/csv",
            encoded_slashes=("path",),
            unsafe=True,
        )
    }
    assert (found.output_schemas, found.deep_arrays, found.max_binary_bytes) == ("none", "indexes", 2048)
    assert (found.key_header, found.key_quoted) == ("x-once", False)
    assert (found.auth, found.schemes) == ("schemes", ("A", "B"))
    assert (found.lent_tokens, found.lent_secrets) == ({"C": "google"}, {"D": "KEY"})


SECRET = "a-secret-of-at-least-thirty-two-bytes"
AUTHS = [
    ("", ("", "", "", "")),
    ("auth: {bearer: a}", ("bearer", "authorization", "", "")),
    (f"auth: {{jwt: {{secret: {SECRET}}}}}", ("bearer", "authorization", "", "")),
    ("auth: {basic: {user: a, password: b}}", ("basic", "authorization", "", "")),
    ("auth: {header: {name: X-Key, value: a}}", ("header", "x-key", "", "")),
    ("auth: {api_key: {value: a}}", ("api_key", "", "", "")),
    ("auth: {api_key: {in: header, name: X-Key, value: a}}", ("api_key", "x-key", "header", "X-Key")),
    ("auth: {api_key: {in: query, name: key, value: a}}", ("api_key", "", "query", "key")),
    ("auth: {api_key: {in: cookie, name: sid, value: a}}", ("api_key", "cookie", "cookie", "sid")),
]


@pytest.mark.parametrize(("auth", "expected"), AUTHS)
def test_a_document_is_read_knowing_where_the_backends_own_credential_goes(
    auth: str, expected: tuple[str, ...]
) -> None:
    found = terms(f"\n    url: http://a\n    document: https://d.example\n    {auth}\n")
    assert (found.auth, found.auth_header, found.auth_in, found.auth_name) == expected
    assert (found.methods, found.max_operations, found.folder) == (("GET", "QUERY"), 200, "")
    assert b"secret" not in encode(found)
