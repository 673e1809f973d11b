"""Checks of challenges: a call is refused until the user has granted access on a page."""

from __future__ import annotations

from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.clients.rest.scenarios import AUTHORIZE
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.servers.rest.forms import CHALLENGING

PAGE = "Tool Requirements, Challenges"

check: Registry[RestObservation] = Registry()


@check(70, MUST, PAGE, forms=CHALLENGING)
def url_not_opened(challenge: RestObservation) -> None:
    """The client does not open the authorization page itself.

    Fix: Leave it to the user, who is the one to grant access.
    """
    opened = any(it.path == AUTHORIZE for it in challenge.elsewhere)
    challenge.must(not opened, "No request for the url of the challenge.")


@check(71, SHOULD, PAGE, forms=CHALLENGING)
def url_shown(challenge: RestObservation) -> None:
    """The URL of the authorization page is shown.

    Fix: Print the url of each challenge, or open it in the user's browser.
    """
    challenge.must(AUTHORIZE in challenge.output, "The url of the challenge in the output.")


@check(72, MUST, PAGE, forms=CHALLENGING)
def challenge_without_credential(challenge: RestObservation) -> None:
    """The credential is not sent to the URLs of a challenge.

    Fix: Request check_url without it: that URL may be on another host.
    """
    carried = any(it.has(challenge.token) for it in challenge.elsewhere)
    challenge.must(not carried, "No credential at the url or check_url of a challenge.")


@check(73, SHOULD, PAGE, forms=CHALLENGING)
def waits_for_user(challenge: RestObservation) -> None:
    """A challenged call is not retried before the user has granted access.

    Fix: Poll check_url until it reports completed, or ask the user.
    """
    challenge.must_call_once()
    challenge.must_fail("a challenge that the user does not answer")
