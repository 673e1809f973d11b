"""How each dialect of OTC and OXP writes requests and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgate_conformance.http import JSON, Answer

RFC_SCHEMA = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OTC_SCHEMA = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
VERSION_HEADER = "oxp-version"


class Form(Struct, frozen=True):
    """How a dialect writes requests and answers.

    With `is_flat` the body of a request is the request itself, and its version is in a header. `spellings` are the
    ways to write the version, the usual one first. `list_member` holds the tools in a list; None: the list is the body.
    """

    name: str
    prefix: str  # of the ids of its checks
    source: str
    call_path: str
    spellings: tuple[str, ...]
    list_member: str | None
    is_flat: bool = False
    result_member: str | None = "result"  # holds the answer to a call; None: it is the body

    @property
    def schema(self) -> str | None:
        """The usual `$schema`; None in a dialect whose requests need none."""
        return None if self.is_flat or not self.spellings else self.spellings[0]

    def request(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a call."""
        if self.is_flat:
            return dict(members)
        return ({} if self.schema is None else {"$schema": self.schema}) | {"request": dict(members)}

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return JSON | ({VERSION_HEADER: self.spellings[0]} if self.is_flat else {})

    def result(self, answer: Answer) -> dict[str, Any]:
        """The result of a call, taken out of its envelope. Raises UnfitError."""
        document = answer.document if self.result_member is None else answer.member(self.result_member)
        where = "the body" if self.result_member is None else f"`{self.result_member}`"
        answer.must(isinstance(document, dict), f"An object in {where}.")
        found: dict[str, Any] = document
        return found

    def outcome(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """What holds `value` or `error`: `output` in the RFC, else the result itself."""
        output = result.get("output")
        return output if self.name == "rfc" and isinstance(output, dict) else result

    @property
    def version_member(self) -> str:
        """Where answers state their version, for a report."""
        return "header OXP-Version" if self.is_flat else "member `$schema`"

    def version(self, answer: Answer) -> str | None:
        """The version that an answer states, in its header or in `$schema`; None without one. Raises UnfitError."""
        stated = answer.headers.get(VERSION_HEADER) if self.is_flat else answer.member("$schema")
        return stated if isinstance(stated, str) and stated else None


FORMS = {
    form.name: form
    for form in (
        Form(
            "otc",
            "OTC",
            "OTC 1.0",
            "/tools/call",
            ("otc://1.0", OTC_SCHEMA, OTC_SCHEMA.replace("/spec/", "/specification/")),  # one draft has the last one
            "tools",
        ),
        Form("rfc", "RFC", "OTC RFC", "/call", (RFC_SCHEMA,), "tools", result_member=None),
        Form("oxp", "OXP", "OXP 1.0", "/tools/call", ("1.0", "1.0.0"), "items", is_flat=True, result_member=None),
        Form("oxp-env", "ENV", "OXP 1.0, enveloped", "/tools/call", ("urn:oxp:1.0", OTC_SCHEMA), "items"),
        Form("lc", "LC", "LangChain form", "/tools/call", (), None, result_member=None),
    )
}

SPECIFIED = frozenset({"otc", "rfc", "oxp", "oxp-env"})  # unlike the LangChain form, which its programs define
WITH_IDS = SPECIFIED - {"rfc"}  # whose definitions have the version, and the output schema, as members of their own
REQUIRING = WITH_IDS  # whose tools declare requirements
ENVELOPED = frozenset({"otc", "rfc", "oxp-env"})  # whose bodies state the version in `$schema`
HEADER = frozenset({"oxp"})  # whose version is in the header OXP-Version
CHALLENGING = frozenset({"oxp", "oxp-env"})  # whose servers send users to a page
RFC = frozenset({"rfc"})
