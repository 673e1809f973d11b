"""How version 1.0 is written on the wire, and which of these a request names.

No draft was ever frozen, so each is a list of exact strings; a near miss is refused (OTC 1.0 and OXP 1.0, Versioning).
"""

from __future__ import annotations

from gateway.dialects.fields import invalid
from gateway.model import Json
from gateway.wire import Head

RFC_SCHEMA = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OTC_SCHEMA = "otc://1.0"
OXP_SCHEMA = "urn:oxp:1.0"
OTC_URL = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
OTC_URL_DRAFT = "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json"
OTC_URLS = frozenset({OTC_URL, OTC_URL_DRAFT})  # OXP's own pages still print the first
SCHEMAS = OTC_URLS | {RFC_SCHEMA, OTC_SCHEMA, OXP_SCHEMA}

HEADER = b"oxp-version"
HEADER_VERSION = "1.0"
# The prose demands a semantic version, which `1.0`, the one in every example, is not.
HEADER_VERSIONS = frozenset({b"1.0", b"1.0.0", b"1"})


def of_schema(document: Json, canonical: str, accepted: frozenset[str]) -> str:
    """The `$schema` of a body; the canonical one when absent. Raises INVALID_REQUEST for one that is not accepted."""
    if not isinstance(document, dict) or "$schema" not in document:
        return canonical
    schema = document["$schema"]
    if not isinstance(schema, str) or schema not in accepted:
        raise invalid("The requested version of the standard is not supported.")
    return schema


def of_header(head: Head) -> str:
    """The `OXP-Version` of a head; `1.0` when absent. Raises INVALID_REQUEST for one that is not accepted."""
    version = head.headers.get(HEADER)
    if version is None:
        return HEADER_VERSION
    if version not in HEADER_VERSIONS:
        raise invalid("The requested OXP-Version is not supported.")
    return version.decode("ascii")
