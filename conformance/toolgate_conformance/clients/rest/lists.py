"""Checks of how a client asks for the list of tools, and of the protocol version that it names."""

from __future__ import annotations

from typing import Any

from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.clients.scripted import Request
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rest.forms import SPECIFIED

OTC_URL = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
VERSIONS = {"otc": {"otc://1.0", OTC_URL}, "oxp-env": {"urn:oxp:1.0", OTC_URL}, "oxp": {"1.0", "1.0.0"}}

check: Registry[RestObservation] = Registry()


@check(1, MUST, "List Tools")
def lists(plain: RestObservation) -> None:
    """Tools are listed with `GET /tools`.

    Fix: Request the list before the first call.
    """
    plain.must(bool(plain.lists), "A request GET /tools.")


@check(2, SHOULD, "Versioning", forms=SPECIFIED, silent=SPECIFIED - {"rfc"})
def names_version(plain: RestObservation) -> None:
    """Each call names the version of the protocol.

    Fix: Send $schema in the body in OTC and enveloped OXP, the header OXP-Version in flat OXP.
    """
    plain.called()
    named = _versions(plain, plain.calls[0])
    plain.must(bool(named), "The header OXP-Version." if plain.form.is_flat else "`$schema` in the body.")


@check(3, MUST, "Versioning", forms=SPECIFIED)
def names_no_other_version(plain: RestObservation) -> None:
    """No request names another version of the protocol.

    Fix: Write the version exactly as the specification does.
    """
    right = VERSIONS.get(plain.form.name, set()) | {plain.form.schema}
    for request in plain.lists + plain.calls:
        for named in _versions(plain, request):
            plain.must(named in right, f"The version {plain.form.schema or '1.0'}, not {named!r}.")


@check(4, GOOD, "List Tools")
def keeps_path(prefixed: RestObservation) -> None:
    """The URL of the tool server may have a path.

    Fix: Append /tools to the whole URL, not to its host.
    """
    found = prefixed.lists + prefixed.calls
    fits = bool(found) and all(it.path.startswith(prefixed.scenario.path) for it in found)
    prefixed.must(fits, f"Requests below {prefixed.scenario.path}.")


def _versions(seen: RestObservation, request: Request) -> list[Any]:
    """The protocol versions that a request names."""
    if seen.form.is_flat:
        return [request.headers["oxp-version"]] if "oxp-version" in request.headers else []
    document = request.document
    return [document["$schema"]] if isinstance(document, dict) and "$schema" in document else []
