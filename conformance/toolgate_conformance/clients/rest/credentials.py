"""Checks of where a client sends credentials and secrets, and where it must not."""

from __future__ import annotations

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.clients.rest.scenarios import ASKED_ACCESS, ASKED_SECRET
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rest.forms import REQUIRING

SECURITY_PAGE = "Security"
REQUIREMENTS_PAGE = "Tool Requirements"

check: Registry[RestObservation] = Registry()


@check(60, MUST, SECURITY_PAGE)
def sends_credential(plain: RestObservation) -> None:
    """Every request carries the credential.

    Fix: Send it with the list request, too: in Authorization or in the header for API keys.
    """
    found = plain.lists + plain.calls
    plain.must(bool(found), "A request.")
    for request in found:
        plain.must(plain.token in str(request.headers), f"A credential in the headers of {request.method}.")


@check(61, MUST, SECURITY_PAGE)
def credential_in_no_url(plain: RestObservation, required: RestObservation) -> None:
    """No URL contains the credential, or a token or secret for a tool.

    Fix: Send the credential in a header and the others in `context`: URLs appear in logs.
    """
    for seen in (plain, required):
        for secret in (seen.token, *seen.secrets.values()):
            seen.must(not any(secret in it.target for it in seen.requests), "No credential and no secret in a URL.")


@check(62, SHOULD, f"{SECURITY_PAGE}, and RFC 9110, 15.4")
def credential_stays(moved_list: RestObservation, moved_call: RestObservation) -> None:
    """The credential is not sent to another origin.

    Fix: Drop it when you follow a redirect to another host or port.
    """
    for seen in (moved_list, moved_call):
        seen.must(not any(it.has(seen.token) for it in seen.elsewhere), "No credential at another origin.")


@check(63, GOOD, SECURITY_PAGE)
def input_stays(moved_call: RestObservation) -> None:
    """The input of a call is not sent to another origin.

    Fix: Do not follow a redirect of a POST to another host or port.
    """
    moved_call.must(not any(it.body for it in moved_call.elsewhere), "No call at another origin.")


@check(64, SHOULD, SECURITY_PAGE)
def credential_not_shown(unauthorized: RestObservation, failed: RestObservation) -> None:
    """The credential is not printed.

    Fix: Keep credentials out of messages and logs.
    """
    for seen in (unauthorized, failed):
        seen.must(seen.token not in seen.output, "No credential in the output.")


@check(65, MUST, REQUIREMENTS_PAGE, forms=REQUIRING)
def nothing_unrequired(unrequired: RestObservation) -> None:
    """A tool without requirements gets no tokens and no secrets.

    Fix: Send only what the definition of the tool requires.
    """
    unrequired.called()
    unrequired.must_not_send(unrequired.secrets)


@check(66, MUST, REQUIREMENTS_PAGE, forms=REQUIRING)
def only_required(required: RestObservation) -> None:
    """A tool gets no tokens and secrets that it does not require.

    Fix: Select them by the ids in the definition of the tool.
    """
    required.called()
    required.must_not_send({id_: it for id_, it in required.secrets.items() if id_ not in (ASKED_ACCESS, ASKED_SECRET)})


@check(67, MUST, REQUIREMENTS_PAGE, forms=REQUIRING)
def sends_required(required: RestObservation) -> None:
    """A tool gets the tokens and secrets that it requires.

    Fix: Send them in `context`: authorization as {id, token}, secrets as {id, value}.
    """
    given = required.called().get("context")
    context = given if isinstance(given, dict) else {}
    if not any(it.has(secret) for it in required.calls for secret in required.secrets.values()):
        raise SkippedError("The client seems to take no secrets from its environment.")
    for kind, member, id_ in (("authorization", "token", ASKED_ACCESS), ("secrets", "value", ASKED_SECRET)):
        entry = {"id": id_, member: required.secrets[id_]}
        sent = context.get(kind)
        fits = isinstance(sent, list) and any(isinstance(it, dict) and entry.items() <= it.items() for it in sent)
        required.must(fits, f"{{id: {id_}, {member}: ...}} in `context.{kind}`.")


@check(68, SHOULD, SECURITY_PAGE, forms=REQUIRING)
def secrets_not_shown(required_failed: RestObservation) -> None:
    """Tokens and secrets for tools are not printed.

    Fix: Keep them out of messages and logs.
    """
    required_failed.called()
    required_failed.must_not_print(required_failed.secrets)


@check(69, GOOD, SECURITY_PAGE, forms=REQUIRING)
def secrets_stay(required_moved: RestObservation) -> None:
    """Tokens and secrets for tools are not sent to another origin.

    Fix: Do not follow a redirect of a POST to another host or port.
    """
    for id_, secret in required_moved.secrets.items():
        required_moved.must(
            not any(it.has(secret) for it in required_moved.elsewhere), f"No value of {id_} at another origin."
        )
