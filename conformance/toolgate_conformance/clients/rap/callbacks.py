"""Checks of how a RAP runtime receives callbacks."""

from __future__ import annotations

import re

from toolgate_conformance.clients.rap.observation import CHOICE, RapObservation
from toolgate_conformance.clients.rap.scenarios import AUTH_URL, CHOICES, FAILURE, OTHER, RESULT
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry

RESULT_PAGE = "Tool result"
SECRET = re.compile(r"[A-Za-z0-9_~-]{16,}")  # 16 characters of base64 have 96 bits

check: Registry[RapObservation] = Registry()


@check(30, MUST, RESULT_PAGE)
def result_is_returned(plain: RapObservation) -> None:
    """The result of a call is returned.

    Fix: Print the text of the result, and exit with 0.
    """
    plain.must_return(RESULT)


@check(31, SHOULD, "Transport")
def callback_is_answered(plain: RapObservation) -> None:
    """A callback is answered with 200.

    Fix: Respond with 200 as soon as the message is validated: tools may not retry.
    """
    plain.must(plain.statuses("result") == [200], "Status 200 for the callback, within 5 s.")


@check(32, SHOULD, "Transport, callback URLs")
def url_is_secret(plain: RapObservation, again: RapObservation) -> None:
    """A callback URL cannot be guessed.

    Fix: Put at least 128 random bits into its path or query, for each call.
    """
    urls = [str(seen.invoked().get("callback_url")) for seen in (plain, again)]
    secrets = [set(SECRET.findall(url)) for url in urls]
    again.must(bool(secrets[1] - secrets[0]), "A random part in `callback_url`, which no other call has.")


@check(33, GOOD, "Transport, callback URLs")
def wrong_url(guessed: RapObservation) -> None:
    """A wrong callback URL is refused with 4xx.

    Fix: Respond with 404 to a path that you have not given out.
    """
    statuses = guessed.statuses("guess")
    fits = bool(statuses) and all(status is not None and 400 <= status < 500 for status in statuses)
    guessed.must(fits, "A 4xx status for the altered URL.")
    guessed.must(OTHER not in guessed.output, "No result from the altered URL.")


@check(34, MUST, RESULT_PAGE)
def foreign_results(foreign_id: RapObservation, foreign_group: RapObservation) -> None:
    """A result for another call is discarded.

    Fix: Accept a result only if both id and group_id are those of a pending call.
    """
    for seen in (foreign_id, foreign_group):
        seen.must(OTHER not in seen.output, "No result of another call in the output.")
        seen.must_return(RESULT)


@check(35, MUST, "Lifecycle")
def early_result(early: RapObservation) -> None:
    """A result that arrives before the acknowledgement is accepted.

    Fix: Register the call before you send it.
    """
    early.must_return(RESULT)


@check(36, MUST, "Tool result, Lifecycle")
def first_result_wins(twice: RapObservation) -> None:
    """A call has one result: the first.

    Fix: Discard later results for the same id.
    """
    twice.must(OTHER not in twice.output, "No later result in the output.")
    twice.must_return(RESULT)
    twice.must(twice.stdout.count(RESULT) == 1, f"The text {RESULT!r} once.")


@check(37, MUST, RESULT_PAGE)
def content_wins(content: RapObservation) -> None:
    """`content` takes precedence over `text`.

    Fix: Read the items in `content` if there are any.
    """
    content.must_return(RESULT)
    content.must(OTHER not in content.stdout, "No `text` in the output if there is `content`.")


@check(38, MUST, "View updates")
def view_update(view: RapObservation) -> None:
    """A `view_update` does not complete a call.

    Fix: Respond with 200, and wait for the result.
    """
    view.must_return(RESULT)


@check(39, SHOULD, "Transport")
def unknown_type(unknown_type: RapObservation) -> None:
    """A message of an unknown type is refused with 4xx.

    Fix: Validate each message, and respond with 400 to one that is not valid.
    """
    statuses = unknown_type.statuses("unknown")
    fits = bool(statuses) and all(status is not None and 400 <= status < 500 for status in statuses)
    unknown_type.must(fits, "A 4xx status for the unknown type.")


@check(40, MUST, "Transport")
def unknown_type_completes_nothing(unknown_type: RapObservation) -> None:
    """A message of an unknown type does not complete a call.

    Fix: Wait for the result.
    """
    unknown_type.must_return(RESULT)


@check(41, SHOULD, RESULT_PAGE)
def failure_is_shown(failed: RapObservation) -> None:
    """The text of a failure is shown.

    Fix: Print it: models correct their calls by it.
    """
    failed.must(FAILURE.removeprefix("Error: ") in failed.output, f"The text {FAILURE!r} in the output.")


@check(50, MUST, "OAuth")
def consent_is_shown(oauth: RapObservation) -> None:
    """The URL of an `oauth` message is shown.

    Fix: Show auth_url to the user.
    """
    oauth.must(AUTH_URL in oauth.output, "`auth_url` in the output.")


@check(51, MUST, "OAuth")
def consent_keeps_call(oauth: RapObservation) -> None:
    """A call that waits for consent is not invoked again.

    Fix: Keep the call pending: the tool continues by itself.
    """
    oauth.must_invoke_once()


@check(52, MUST, "User choice")
def choice_is_answered(choice: RapObservation) -> None:
    """A `user_choice` is answered at its `response_url`.

    Fix: POST the id of the call and the selected index; if nobody chooses, the default.
    """
    choice.must_invoke_once()
    answers = [it.document for it in choice.requests if it.method == "POST" and it.path.endswith(CHOICE)]
    choice.must(len(answers) == 1 and isinstance(answers[0], dict), "One answer to the choice.")
    choice.must(answers[0].get("id") == choice.invoked().get("id"), "The `id` of the call.")
    selected = answers[0].get("selected")
    fits = isinstance(selected, int) and not isinstance(selected, bool) and 0 <= selected < len(CHOICES)
    choice.must(fits, f"An index of a choice in `selected`, not {selected!r}.")
