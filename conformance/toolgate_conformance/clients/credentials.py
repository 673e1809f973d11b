"""Checks of where a client sends credentials and secrets, and where it must not."""

from __future__ import annotations

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.clients.registry import GOOD, MUST, REQUIRING, SHOULD, Registry
from toolgate_conformance.clients.scenarios import ASKED_ACCESS, ASKED_SECRET
from toolgate_conformance.clients.seen import Seen

SECURITY_PAGE = "Security"
REQUIREMENTS_PAGE = "Tool Requirements"

check = Registry()


@check(
    60,
    MUST,
    "Every request carries the credential",
    "plain",
    page=SECURITY_PAGE,
    remedy="Send it with the list request, too: in Authorization or in the header for API keys.",
)
def sends_credential(plain: Seen) -> None:
    found = plain.lists + plain.calls
    plain.must(bool(found), "A request.")
    for request in found:
        plain.must(plain.token in str(request.headers), f"A credential in the headers of {request.method}.")


@check(
    61,
    MUST,
    "No URL contains the credential, or a token or secret for a tool",
    "plain",
    "required",
    page=SECURITY_PAGE,
    remedy="Send the credential in a header and the others in `context`: URLs appear in logs.",
)
def credential_in_no_url(plain: Seen, required: Seen) -> None:
    for seen in (plain, required):
        for secret in (seen.token, *seen.secrets.values()):
            seen.must(not any(secret in it.target for it in seen.requests), "No credential and no secret in a URL.")


@check(
    62,
    SHOULD,
    "The credential is not sent to another origin",
    "moved-list",
    "moved-call",
    page=f"{SECURITY_PAGE}, and RFC 9110, 15.4",
    remedy="Drop it when you follow a redirect to another host or port.",
)
def credential_stays(moved_list: Seen, moved_call: Seen) -> None:
    for seen in (moved_list, moved_call):
        seen.must(not any(it.has(seen.token) for it in seen.elsewhere), "No credential at another origin.")


@check(
    63,
    GOOD,
    "The input of a call is not sent to another origin",
    "moved-call",
    page=SECURITY_PAGE,
    remedy="Do not follow a redirect of a POST to another host or port.",
)
def input_stays(moved: Seen) -> None:
    moved.must(not any(it.body for it in moved.elsewhere), "No call at another origin.")


@check(
    64,
    SHOULD,
    "The credential is not printed",
    "unauthorized",
    "failed",
    page=SECURITY_PAGE,
    remedy="Keep credentials out of messages and logs.",
)
def credential_not_shown(unauthorized: Seen, failed: Seen) -> None:
    for seen in (unauthorized, failed):
        seen.must(seen.token not in seen.output, "No credential in the output.")


@check(
    65,
    MUST,
    "A tool without requirements gets no tokens and no secrets",
    "unrequired",
    page=REQUIREMENTS_PAGE,
    remedy="Send only what the definition of the tool requires.",
    forms=REQUIRING,
)
def nothing_unrequired(unrequired: Seen) -> None:
    unrequired.called()
    unrequired.must_not_send(unrequired.secrets)


@check(
    66,
    MUST,
    "A tool gets no tokens and secrets that it does not require",
    "required",
    page=REQUIREMENTS_PAGE,
    remedy="Select them by the ids in the definition of the tool.",
    forms=REQUIRING,
)
def only_required(required: Seen) -> None:
    required.called()
    required.must_not_send({id_: it for id_, it in required.secrets.items() if id_ not in (ASKED_ACCESS, ASKED_SECRET)})


@check(
    67,
    MUST,
    "A tool gets the tokens and secrets that it requires",
    "required",
    page=REQUIREMENTS_PAGE,
    remedy="Send them in `context`: authorization as {id, token}, secrets as {id, value}.",
    forms=REQUIRING,
)
def sends_required(required: Seen) -> None:
    given = required.called().get("context")
    context = given if isinstance(given, dict) else {}
    if not any(it.has(secret) for it in required.calls for secret in required.secrets.values()):
        raise SkippedError("The client seems to take no secrets from its environment.")
    for kind, member, id_ in (("authorization", "token", ASKED_ACCESS), ("secrets", "value", ASKED_SECRET)):
        entry = {"id": id_, member: required.secrets[id_]}
        sent = context.get(kind)
        fits = isinstance(sent, list) and any(isinstance(it, dict) and entry.items() <= it.items() for it in sent)
        required.must(fits, f"{{id: {id_}, {member}: ...}} in `context.{kind}`.")


@check(
    68,
    SHOULD,
    "Tokens and secrets for tools are not printed",
    "required-failed",
    page=SECURITY_PAGE,
    remedy="Keep them out of messages and logs.",
    forms=REQUIRING,
)
def secrets_not_shown(failed: Seen) -> None:
    failed.called()
    failed.must_not_print(failed.secrets)


@check(
    69,
    GOOD,
    "Tokens and secrets for tools are not sent to another origin",
    "required-moved",
    page=SECURITY_PAGE,
    remedy="Do not follow a redirect of a POST to another host or port.",
    forms=REQUIRING,
)
def secrets_stay(moved: Seen) -> None:
    for id_, secret in moved.secrets.items():
        moved.must(not any(it.has(secret) for it in moved.elsewhere), f"No value of {id_} at another origin.")
