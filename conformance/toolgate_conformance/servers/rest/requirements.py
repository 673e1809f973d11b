"""Checks of calls that lack what their tool requires: a user, an authorization, a secret."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from toolgate_conformance.checks import NEEDS_CALL, SkippedError
from toolgate_conformance.http import Answer
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import CHALLENGING, RFC, SPECIFIED
from toolgate_conformance.servers.rest.server import RestServer
from toolgate_conformance.servers.rest.tools import required_arguments, requirements_of

OLDER = frozenset({"otc", "rfc"})  # which have no `missing_requirements`
PAGE = "Call Tool, Tool Authorization Challenges"
MEMBERS = frozenset({"id", "url", "check_url"})  # of a challenge, openapi.json
STATES = ("pending", "completed", "failed")

check: Registry[RestServer] = Registry()


@check(80, MUST, "Tool Requirements", forms=SPECIFIED, silent=OLDER)
async def lacks_user(server: RestServer) -> None:
    """A call without the user that its tool requires is refused with 400.

    Fix: Send user_id: true in missing_requirements.
    """
    answer = await _refused(server, "user_id")
    missing = answer.member("missing_requirements")
    is_named = isinstance(missing, dict) and missing.get("user_id") is True
    answer.must(is_named, "user_id: true in `missing_requirements`.")


@check(81, MUST, PAGE, forms=SPECIFIED, silent=OLDER)
async def lacks_authorization(server: RestServer) -> None:
    """A call without the authorization that its tool requires is refused with a URL for the user.

    Fix: Send challenges with id and url in missing_requirements.authorization.
    """
    answer = await _refused(server, "authorization")
    challenges = _challenges(answer)
    answer.must(bool(challenges), "Objects in `missing_requirements.authorization`.")
    for challenge in challenges:
        is_whole = isinstance(challenge.get("id"), str) and isinstance(challenge.get("url"), str)
        answer.must(is_whole, "An id and a url in each challenge.")


@check(82, MUST, "Tool Requirements", forms=SPECIFIED, silent=RFC)
async def lacks_secret(server: RestServer) -> None:
    """A call without a secret that its tool requires is refused with 400.

    Fix: Check for secrets before the tool runs.
    """
    await _refused(server, "secrets")


@check(83, MUST, f"{PAGE}, ToolAuthorizationChallenge", forms=CHALLENGING)
async def closed_challenge(server: RestServer) -> None:
    """A challenge has no members besides `id`, `url` and `check_url`.

    Fix: Send everything else beside the challenges.
    """
    answer = await _refused(server, "authorization")
    for challenge in _challenges(answer):
        more = sorted(challenge.keys() - MEMBERS)
        answer.must(not more, f"A challenge without {', '.join(more)}.")


@check(84, MUST, PAGE, forms=CHALLENGING)
async def challenge_status(server: RestServer) -> None:
    """`check_url` returns the status of its challenge.

    Fix: Respond with 200 and a status: pending, completed or failed.
    """
    found = [it["check_url"] for it in _challenges(await _refused(server, "authorization")) if "check_url" in it]
    if not found:
        raise SkippedError("The challenge has no check_url.")
    url = urljoin(f"{server.client.url}/", str(found[0]))
    is_own = urlsplit(url)[:2] == urlsplit(server.client.url)[:2]  # a credential goes to no other origin
    answer = await server.client.send("GET", url, headers={"accept": "application/json"}, is_known=is_own)
    answer.must(answer.status == 200, "Status 200.")
    answer.must(answer.member("status") in STATES, f"One of {', '.join(STATES)} in `status`.")


@check(85, GOOD, "Tool Requirements", forms=SPECIFIED)
async def input_comes_first(server: RestServer) -> None:
    """Invalid input is refused before missing requirements are.

    Fix: Validate the input first, so that no user authorizes a call that cannot run.
    """
    for definition in await server.tools():
        if requirements_of(definition) and required_arguments(server.form, definition):
            answer = await server.call(str(definition.get("id")), {})
            answer.must(answer.status == 422, "Status 422.")
            return
    raise SkippedError("No listed tool has both requirements and a required argument.")


async def _refused(server: RestServer, kind: str) -> Answer:
    """The refusal of an allowed call without what it requires of a kind. Raises SkippedError, UnfitError."""
    for call in server.calls:
        definition = await server.definition(call)
        if definition is None or kind not in requirements_of(definition):
            continue
        context = {name: value for name, value in call.context.items() if name != kind}
        answer = await server.call(call.tool, call.input, **({"context": context} if context else {}))
        if kind == "authorization" and answer.status == 200:
            raise SkippedError("The user of the --call has authorized the tool already.")
        answer.must(answer.status == 400, "Status 400.")
        return answer
    if not any(kind in requirements_of(definition) for definition in await server.tools()):
        raise SkippedError(f"No listed tool requires {kind}.")
    raise SkippedError(f"No tool of a --call requires {kind}." if server.calls else NEEDS_CALL)


def _challenges(answer: Answer) -> list[dict[str, object]]:
    """The challenges in a refusal. Raises UnfitError if one is no object."""
    missing = answer.member("missing_requirements")
    found = missing.get("authorization") if isinstance(missing, dict) else None
    challenges = found if isinstance(found, list) else []
    answer.must(all(isinstance(it, dict) for it in challenges), "Objects in `missing_requirements.authorization`.")
    return challenges
