"""Checks of calls that ask a person for consent or a choice."""

from __future__ import annotations

import httpx

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import MUST, Registry
from toolgate_conformance.servers.rap.invocation import default_of, is_url
from toolgate_conformance.servers.rap.server import RapServer

LOOPBACK = ("localhost", "127.0.0.1", "::1")

check: Registry[RapServer] = Registry()


@check(80, MUST, "OAuth")
async def auth_url(server: RapServer) -> None:
    """The `auth_url` of `oauth` is an https URL.

    Fix: Send people to https; http is for loopback only.
    """
    for _, invocation, callback in await server.calls_with("oauth"):
        url = callback.document.get("auth_url")
        fits = is_url(url) and (httpx.URL(str(url)).scheme == "https" or httpx.URL(str(url)).host in LOOPBACK)
        invocation.must(fits, f"An https URL in `auth_url`, not {url!r:.200}.", callback)


@check(81, MUST, "User Choice")
async def questions(server: RapServer) -> None:
    """A question has a prompt, choices, a default and a response URL.

    Fix: Send `prompt`, `choices`, `default` as an index of them, and `response_url`.
    """
    for _, invocation, callback in await server.calls_with("user_choice"):
        asked = callback.document
        choices, default = asked.get("choices"), asked.get("default")
        invocation.must(isinstance(asked.get("prompt"), str), "A text in `prompt`.", callback)
        fits = isinstance(choices, list) and bool(choices) and all(isinstance(each, str) for each in choices)
        invocation.must(fits, "A list of texts in `choices`.", callback)
        in_range = type(default) is int and isinstance(choices, list) and 0 <= default < len(choices)
        invocation.must(in_range, f"An index of `choices` in `default`, not {default!r:.200}.", callback)
        invocation.must(is_url(asked.get("response_url")), "A URL in `response_url`.", callback)


@check(82, MUST, "User Choice")
async def takes_answers(server: RapServer) -> None:
    """The answer to a question is acknowledged with 200 and leads to the result.

    Fix: Answer 200, go on with the choice, and post the `tool_result`.
    """
    for _, invocation, callback in await server.calls_with("user_choice"):
        answer = invocation.chosen()
        answer.must(answer.status == 200, "Status 200.")
        invocation.must(bool(invocation.inbox.of("tool_result")), "A tool_result after the answer.", callback)


@check(83, MUST, "User Choice")
async def takes_no_wrong_answers(server: RapServer) -> None:
    """An invalid choice still leads to a result.

    Fix: Post an error as the `tool_result` if the choice is no index of `choices`, or ask again.
    """
    call, _, _ = (await server.calls_with("user_choice"))[0]
    invocation = await server.make(call)
    question = await invocation.inbox.first(lambda it: it.kind == "user_choice", server.waits.result_s)
    if question is None:
        raise SkippedError("The tool does not ask again.")
    answer = await server.choose(invocation, 1_000_000, question)
    answer.must(answer.status < 500, "A status below 500.")
    if answer.status >= 400:  # which is told at once; the question is still open
        await server.choose(invocation, default_of(question), question)
    result = await server.result(invocation)
    invocation.must(result is not None, "A tool_result after the answer.", question)


@check(84, MUST, "OAuth")
async def goes_on_after_consent(server: RapServer) -> None:
    """After consent, the call leads to its result.

    Fix: Keep the call open while the person decides, and post the `tool_result` with its `id`.
    """
    asked = await server.calls_with("oauth")
    if not server.waits.consent_s:
        raise SkippedError("A person has to consent for this: --consent waits for one.")
    for _, invocation, callback in asked:
        invocation.must(bool(invocation.inbox.of("tool_result")), "A tool_result after consent.", callback)


@check(85, MUST, "OAuth, User Choice")
async def call_ids_of_requests(server: RapServer) -> None:
    """A request for consent or a choice has the `call_id` of the invocation.

    Fix: Copy `call_id` of the invocation if there is one.
    """
    is_tried = False
    for _, invocation in await server.observed():
        for callback in (*invocation.inbox.of("oauth"), *invocation.inbox.of("user_choice")):
            is_tried = True
            is_own = callback.document.get("call_id") == invocation.call_id
            invocation.must(is_own, f"`call_id` {invocation.call_id!r}.", callback)
    if not is_tried:
        raise SkippedError("No call of --call asks for consent or a choice.")
