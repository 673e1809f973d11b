"""Checks of calls that lack what their tool requires: a user, an authorization, a secret."""

from __future__ import annotations

from gateway.conformance.checks import SkippedError
from gateway.conformance.http import Answer
from gateway.conformance.rest.expectations import is_meant, refused
from gateway.conformance.rest.registry import MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    80,
    MUST,
    "A call that lacks its user is refused with 400",
    page="Tool Requirements",
    remedy="Say user_id: true in missing_requirements.",
    forms=SPECIFIED,
)
async def lacks_user(server: RestServer) -> None:
    answer = await _lacking(server, "user_id")
    missing = answer.member("missing_requirements")
    answer.must(
        isinstance(missing, dict) and missing.get("user_id") is True, "user_id: true in `missing_requirements`."
    )


@check(
    81,
    MUST,
    "A call that lacks an authorization is refused with a URL to open",
    page="Tool Requirements",
    remedy="List challenges with id and url in missing_requirements.authorization.",
    forms=SPECIFIED,
)
async def lacks_authorization(server: RestServer) -> None:
    answer = await _lacking(server, "authorization")
    missing = answer.member("missing_requirements")
    asked = missing.get("authorization") if isinstance(missing, dict) else None
    entries = asked if isinstance(asked, list) else []
    answer.must(bool(entries), "A list in `missing_requirements.authorization`.")
    fits = all(
        isinstance(it, dict) and isinstance(it.get("id"), str) and isinstance(it.get("url"), str) for it in entries
    )
    answer.must(fits, "An id and a url in each challenge.")


@check(
    82,
    MUST,
    "A call that lacks a secret is refused with 400",
    page="Tool Requirements",
    remedy="Refuse it before it runs.",
    forms=SPECIFIED,
)
async def lacks_secret(server: RestServer) -> None:
    await _lacking(server, "secrets")


async def _lacking(server: RestServer, kind: str) -> Answer:
    """The refusal of an allowed call without what it requires of a kind. Raises SkippedError, UnfitError."""
    for call in server.calls:
        definition = next((it for it in await server.tools() if is_meant(it, call.tool)), None)
        required = None if definition is None else definition.get("requirements")
        if not isinstance(required, dict) or not required.get(kind):
            continue
        context = {name: value for name, value in call.context.items() if name != kind}
        answer = await server.call(call.tool, call.input, **({"context": context} if context else {}))
        refused(server, answer, 400)
        return answer
    raise SkippedError(f"No tool of a --call requires {kind}.")
