"""Checks of authentication: which credentials are refused, and what a server without any does with one."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import MUST, Registry
from toolgate_conformance.servers.rest.forms import RFC, SPECIFIED
from toolgate_conformance.servers.rest.server import NOWHERE, RestServer

check: Registry[RestServer] = Registry()


@check(70, MUST, "Security", forms=SPECIFIED, silent=RFC)
async def without_credential(server: RestServer) -> None:
    """A request without a credential is refused with 401.

    Fix: Require the credential on every path except /health.
    """
    _needs_credential(server)
    await _must_refuse(server, {})


@check(71, MUST, "Security", forms=SPECIFIED, silent=RFC)
async def wrong_credential(server: RestServer) -> None:
    """A wrong credential is refused with 401.

    Fix: Compare the whole credential.
    """
    _needs_credential(server)
    await _must_refuse(server, {"authorization": "Bearer kit-wrong"})


@check(72, MUST, "Security", forms=SPECIFIED, silent=RFC)
async def wrong_signature(server: RestServer) -> None:
    """A JWT with a wrong signature is refused with 401.

    Fix: Verify the signature before you read the claims.
    """
    header, claims, signature = _jwt(server)
    wrong = ("A" if signature[:1] != "A" else "B") + signature[1:]  # the last character may have bits without meaning
    await _must_refuse(server, {"authorization": f"Bearer {header}.{claims}.{wrong}"})


@check(73, MUST, "Security", forms=SPECIFIED, silent=RFC)
async def no_signature(server: RestServer) -> None:
    """An unsigned JWT is refused with 401.

    Fix: Accept only the algorithms that you have chosen, never `none`.
    """
    _, claims, _ = _jwt(server)
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    await _must_refuse(server, {"authorization": f"Bearer {header}.{claims}."})


@check(74, MUST, "Security", forms=SPECIFIED, silent=frozenset({"otc", "rfc", "oxp-env"}))
async def unasked_credential(server: RestServer) -> None:
    """A server without authentication ignores the header `Authorization`.

    Fix: Do not read the header if you require no credential: clients may send one to every server.
    """
    if server.has_credential or (await server.list_tools()).status != 200:
        raise SkippedError("The server requires a credential, or lists nothing.")
    answer = await server.list_tools(headers={"authorization": "Bearer kit-unasked"})
    answer.must(answer.status == 200, "Status 200, as without the header.")


async def _must_refuse(server: RestServer, credential: Mapping[str, str]) -> None:
    """Raises UnfitError unless the list and a call are refused with 401."""
    data = json.dumps(server.form.request({"tool_id": NOWHERE, "input": {}})).encode()
    for method, path, body in (("GET", "/tools", None), ("POST", server.form.call_path, data)):
        headers = {**server.form.headers, **credential}
        answer = await server.client.send(method, path, body=body, headers=headers, is_known=False)
        answer.must(answer.status == 401, "Status 401.")


def _needs_credential(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("No request carries a credential; to test this, give one with --token.")


def _jwt(server: RestServer) -> tuple[str, str, str]:
    """The three parts of the token that requests carry. Raises SkippedError if it is no JWT."""
    _needs_credential(server)
    token = server.client.headers.get("authorization", "").removeprefix("Bearer ")
    header, *rest = token.split(".")
    try:
        is_jwt = len(rest) == 2 and "alg" in json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, TypeError, binascii.Error):
        is_jwt = False
    if not is_jwt:
        raise SkippedError("The token is not a JWT.")
    claims, signature = rest
    return header, claims, signature
