"""Checks of how a RAP runtime receives callbacks."""

from __future__ import annotations

import re

from toolgate_conformance.clients.rap.scenarios import AUTH_URL, CHOICES, FAILURE, OTHER, RESULT
from toolgate_conformance.clients.rap.seen import CHOICE, Seen
from toolgate_conformance.clients.scenario_checks import GOOD, MUST, SHOULD, Registry

RESULT_PAGE = "Tool result"
SECRET = re.compile(r"[A-Za-z0-9_~-]{16,}")  # 16 characters of base64 have 96 bits

check = Registry("RAPC", "RAP")


@check(
    30,
    MUST,
    "The result of a call is returned",
    "plain",
    section=RESULT_PAGE,
    remedy="Print the text of the result, and exit with 0.",
)
def result_is_returned(plain: Seen) -> None:
    plain.must_return(RESULT)


@check(
    31,
    SHOULD,
    "A callback is answered with 200",
    "plain",
    section="Transport",
    remedy="Respond with 200 as soon as the message is validated: tools may not retry.",
)
def callback_is_answered(plain: Seen) -> None:
    plain.must(plain.statuses("result") == [200], "Status 200 for the callback, within 5 s.")


@check(
    32,
    SHOULD,
    "A callback URL cannot be guessed",
    "plain",
    "again",
    section="Transport, callback URLs",
    remedy="Put at least 128 random bits into its path or query, for each call.",
)
def url_is_secret(plain: Seen, again: Seen) -> None:
    urls = [str(seen.invoked().get("callback_url")) for seen in (plain, again)]
    secrets = [set(SECRET.findall(url)) for url in urls]
    again.must(bool(secrets[1] - secrets[0]), "A random part in `callback_url`, which no other call has.")


@check(
    33,
    GOOD,
    "A wrong callback URL is refused with 4xx",
    "guessed",
    section="Transport, callback URLs",
    remedy="Respond with 404 to a path that you have not given out.",
)
def wrong_url(guessed: Seen) -> None:
    statuses = guessed.statuses("guess")
    fits = bool(statuses) and all(status is not None and 400 <= status < 500 for status in statuses)
    guessed.must(fits, "A 4xx status for the altered URL.")
    guessed.must(OTHER not in guessed.output, "No result from the altered URL.")


@check(
    34,
    MUST,
    "A result for another call is discarded",
    "foreign-id",
    "foreign-group",
    section=RESULT_PAGE,
    remedy="Accept a result only if both id and group_id are those of a pending call.",
)
def foreign_results(foreign_id: Seen, foreign_group: Seen) -> None:
    for seen in (foreign_id, foreign_group):
        seen.must(OTHER not in seen.output, "No result of another call in the output.")
        seen.must_return(RESULT)


@check(
    35,
    MUST,
    "A result that arrives before the acknowledgement is accepted",
    "early",
    section="Lifecycle",
    remedy="Register the call before you send it.",
)
def early_result(early: Seen) -> None:
    early.must_return(RESULT)


@check(
    36,
    MUST,
    "A call has one result: the first",
    "twice",
    section="Tool result, Lifecycle",
    remedy="Discard later results for the same id.",
)
def first_result_wins(twice: Seen) -> None:
    twice.must(OTHER not in twice.output, "No later result in the output.")
    twice.must_return(RESULT)
    twice.must(twice.stdout.count(RESULT) == 1, f"The text {RESULT!r} once.")


@check(
    37,
    MUST,
    "`content` takes precedence over `text`",
    "content",
    section=RESULT_PAGE,
    remedy="Read the items in `content` if there are any.",
)
def content_wins(content: Seen) -> None:
    content.must_return(RESULT)
    content.must(OTHER not in content.stdout, "No `text` in the output if there is `content`.")


@check(
    38,
    MUST,
    "A `view_update` does not complete a call",
    "view",
    section="View updates",
    remedy="Respond with 200, and wait for the result.",
)
def view_update(view: Seen) -> None:
    view.must_return(RESULT)


@check(
    39,
    SHOULD,
    "A message of an unknown type is refused with 4xx",
    "unknown-type",
    section="Transport",
    remedy="Validate each message, and respond with 400 to one that is not valid.",
)
def unknown_type(unknown: Seen) -> None:
    statuses = unknown.statuses("unknown")
    fits = bool(statuses) and all(status is not None and 400 <= status < 500 for status in statuses)
    unknown.must(fits, "A 4xx status for the unknown type.")


@check(
    40,
    MUST,
    "A message of an unknown type does not complete a call",
    "unknown-type",
    section="Transport",
    remedy="Wait for the result.",
)
def unknown_type_completes_nothing(unknown: Seen) -> None:
    unknown.must_return(RESULT)


@check(
    41,
    SHOULD,
    "The text of a failure is shown",
    "failed",
    section=RESULT_PAGE,
    remedy="Print it: models correct their calls by it.",
)
def failure_is_shown(failed: Seen) -> None:
    failed.must(FAILURE.removeprefix("Error: ") in failed.output, f"The text {FAILURE!r} in the output.")


@check(
    50,
    MUST,
    "The URL of an `oauth` message is shown",
    "oauth",
    section="OAuth",
    remedy="Show auth_url to the user.",
)
def consent_is_shown(oauth: Seen) -> None:
    oauth.must(AUTH_URL in oauth.output, "`auth_url` in the output.")


@check(
    51,
    MUST,
    "A call that waits for consent is not invoked again",
    "oauth",
    section="OAuth",
    remedy="Keep the call pending: the tool continues by itself.",
)
def consent_keeps_call(oauth: Seen) -> None:
    oauth.must_invoke_once()


@check(
    52,
    MUST,
    "A `user_choice` is answered at its `response_url`",
    "choice",
    section="User choice",
    remedy="POST the id of the call and the selected index; if nobody chooses, the default.",
)
def choice_is_answered(choice: Seen) -> None:
    choice.must_invoke_once()
    answers = [it.document for it in choice.requests if it.method == "POST" and it.path.endswith(CHOICE)]
    choice.must(len(answers) == 1 and isinstance(answers[0], dict), "One answer to the choice.")
    choice.must(answers[0].get("id") == choice.invoked().get("id"), "The `id` of the call.")
    selected = answers[0].get("selected")
    fits = isinstance(selected, int) and not isinstance(selected, bool) and 0 <= selected < len(CHOICES)
    choice.must(fits, f"An index of a choice in `selected`, not {selected!r}.")
