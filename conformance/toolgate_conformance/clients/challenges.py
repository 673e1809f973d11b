"""Checks of challenges: a call is refused until the user has granted access on a page."""

from __future__ import annotations

from toolgate_conformance.clients.registry import CHALLENGING, MUST, SHOULD, Registry
from toolgate_conformance.clients.scenarios import AUTHORIZE
from toolgate_conformance.clients.seen import Seen

PAGE = "Tool Requirements, Challenges"

check = Registry()


@check(
    70,
    MUST,
    "The client does not open the authorization page itself",
    "challenge",
    page=PAGE,
    remedy="Leave it to the user, who is the one to grant access.",
    forms=CHALLENGING,
)
def url_not_opened(challenge: Seen) -> None:
    opened = any(it.path == AUTHORIZE for it in challenge.elsewhere)
    challenge.must(not opened, "No request for the url of the challenge.")


@check(
    71,
    SHOULD,
    "The URL of the authorization page is shown",
    "challenge",
    page=PAGE,
    remedy="Print the url of each challenge, or open it in the user's browser.",
    forms=CHALLENGING,
)
def url_shown(challenge: Seen) -> None:
    challenge.must(AUTHORIZE in challenge.output, "The url of the challenge in the output.")


@check(
    72,
    MUST,
    "The credential is not sent to the URLs of a challenge",
    "challenge",
    page=PAGE,
    remedy="Request check_url without it: that URL may be on another host.",
    forms=CHALLENGING,
)
def challenge_without_credential(challenge: Seen) -> None:
    carried = any(it.has(challenge.token) for it in challenge.elsewhere)
    challenge.must(not carried, "No credential at the url or check_url of a challenge.")


@check(
    73,
    SHOULD,
    "A challenged call is not retried before the user has granted access",
    "challenge",
    page=PAGE,
    remedy="Poll check_url until it reports completed, or ask the user.",
    forms=CHALLENGING,
)
def waits_for_user(challenge: Seen) -> None:
    challenge.must_call_once()
    challenge.must_fail("a challenge that the user does not answer")
