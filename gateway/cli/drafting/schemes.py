"""The credentials that an API expects, by the security schemes of its OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gateway.cli.drafting.draft import quoted
from gateway.core.model import Rejected
from gateway.protocols.openapi.document.curation import Terms, reason_left_out
from gateway.protocols.openapi.document.document import Document
from gateway.protocols.openapi.document.operations import partial_operations
from gateway.protocols.openapi.document.plan import OperationError

SCHEME = re.compile(r"[^\x00-\x20\x7f]{1,256}")


class DraftCredential(NamedTuple):
    """A credential for a security scheme: its YAML, and the variables it names with what belongs there."""

    yaml: str
    variables: Mapping[str, str]


def credentials(name: str, document: Document, terms: Terms) -> dict[str, DraftCredential]:
    """What operations that are chosen ask for, by security scheme: of alternatives the first that can be given."""
    found: dict[str, DraftCredential] = {}
    for partial in partial_operations(document):
        if isinstance(partial, Rejected) or reason_left_out(partial.operation, terms) is not None:
            continue
        alternatives = partial.node.get("security", document.root.get("security"))
        if not isinstance(alternatives, list) or {} in alternatives:  # it can be called without a credential
            continue
        for alternative in alternatives:
            schemes = {scheme: _credential(name, scheme, document) for scheme in alternative}
            given = {scheme: one for scheme, one in schemes.items() if one is not None}
            if len(given) == len(schemes):
                found |= given
                break
    return found


def _credential(name: str, scheme: str, document: Document) -> DraftCredential | None:
    """A credential for a scheme; None if it is of a kind that the gateway cannot have."""
    declared = document.components.get("securitySchemes")
    try:
        node = document.resolve(declared.get(scheme)) if isinstance(declared, dict) else {}
    except OperationError:
        return None
    variable = re.sub("[^A-Z0-9]+", "_", f"{name}_{scheme}".upper()).strip("_")
    what = f"what the API expects for its security scheme {scheme}"
    match node:
        case _ if SCHEME.fullmatch(scheme) is None:
            return None
        case {"type": "apiKey", "in": "header" | "query" | "cookie" as where, "name": str(key)}:
            place = f"in: {where}, name: {quoted(key)}"
            return DraftCredential(f'api_key: {{{place}, value: "${{env:{variable}}}"}}', {variable: what})
        case {"type": "http", "scheme": str(word)} if word.lower() == "basic":
            user, password = f"{variable}_USER", f"{variable}_PASSWORD"
            yaml = f'basic: {{user: "${{env:{user}}}", password: "${{env:{password}}}"}}'
            return DraftCredential(yaml, {user: f"{what}: the user", password: f"{what}: the password"})
        case {"type": "http", "scheme": str(word)} if word.lower() == "bearer":
            return DraftCredential(f'bearer: "${{env:{variable}}}"', {variable: f"{what}: a token"})
        case {"type": "oauth2" | "openIdConnect"}:
            return DraftCredential(f'bearer: "${{env:{variable}}}"', {variable: f"{what}: a token"})
    return None


def auth(credentials: Mapping[str, DraftCredential]) -> Iterator[str]:
    """The YAML of the backend's credentials."""
    match list(credentials.items()):
        case []:
            return
        case [(_, one)]:
            yield f"auth: {{{one.yaml}}}"
        case several:
            yield "auth:"
            yield "  schemes:"
            yield from (f"    {quoted(scheme)}: {{{one.yaml}}}" for scheme, one in several)
