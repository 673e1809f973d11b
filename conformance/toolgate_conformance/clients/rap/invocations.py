"""Checks of how a RAP runtime reads toolsets, invokes tools, and retries."""

from __future__ import annotations

import json

from toolgate_conformance.clients.rap.scenarios import INPUT, RESULT, TOOL
from toolgate_conformance.clients.rap.seen import TOOLSET, Seen
from toolgate_conformance.clients.scenario_checks import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.clients.seen import are_same

check = Registry("RAPC", "RAP")


@check(
    1,
    MUST,
    "The toolset is read from `/.well-known/rap-toolset`",
    "plain",
    section="Toolsets",
    remedy="GET the toolset before the first invocation.",
)
def reads_toolset(plain: Seen) -> None:
    fits = any(it.method == "GET" and it.path == TOOLSET for it in plain.requests)
    plain.must(fits, f"A request GET {TOOLSET}.")


@check(
    2,
    MUST,
    "The base URL may have a path and a trailing slash",
    "prefixed",
    section="Toolsets",
    remedy=f"Strip the trailing slash from the base URL, then append {TOOLSET}.",
)
def keeps_path(prefixed: Seen) -> None:
    wanted = prefixed.scenario.path.rstrip("/") + TOOLSET
    prefixed.must(any(it.path == wanted for it in prefixed.requests), f"A request GET {wanted}.")


@check(
    3,
    MUST,
    "A toolset that fails validation offers no tools",
    "unfit-toolset",
    section="Toolsets, Validation",
    remedy="Reject the whole toolset if one of its tools lacks a description.",
)
def rejects_toolset(unfit: Seen) -> None:
    unfit.must(not unfit.invocations, "No invocation.")
    unfit.must(unfit.exit_code != 0, "A non-zero exit code.")


@check(
    10,
    MUST,
    "An invocation is a POST of JSON to `endpoint`, with every required member",
    "plain",
    section="Tool invocation",
    remedy="Send operation, arguments, id, callback_url and group_id, with the content type application/json.",
)
def invokes(plain: Seen) -> None:
    members = plain.invoked()
    plain.must_post_json(plain.invocations[0])
    plain.must(members.get("operation") == TOOL, f"`operation` {TOOL}.")
    for name in ("id", "callback_url", "group_id"):
        found = members.get(name)
        plain.must(isinstance(found, str) and found != "", f"A string in `{name}`.")
    for name in ("call_id", "user_id"):
        plain.must(isinstance(members.get(name), str | None), f"A string or null in `{name}`.")
    plain.must(isinstance(members.get("thread_ancestors"), list | None), "A list or null in `thread_ancestors`.")


@check(
    11,
    MUST,
    "The arguments are sent unchanged",
    "plain",
    section="Tool invocation",
    remedy="Send the arguments as an object in `arguments`, and add nothing to them.",
)
def sends_arguments(plain: Seen) -> None:
    plain.must(are_same(plain.invoked().get("arguments"), INPUT), f"`arguments` {json.dumps(INPUT)}.")


@check(
    12,
    MUST,
    "Different calls have different ids",
    "plain",
    "again",
    section="Tool invocation",
    remedy="Generate a new id for each call, such as a UUID.",
)
def ids_differ(plain: Seen, again: Seen) -> None:
    one, other = plain.invoked().get("id"), again.invoked().get("id")
    again.must(one != other, f"An `id` other than {one!r}, which an earlier call had.")


@check(
    20,
    MUST,
    "A call that is refused with 4xx is not retried, and fails",
    "refused",
    section="Transport",
    remedy="Report the failure to the caller.",
)
def refusal_is_final(refused: Seen) -> None:
    refused.must_invoke_once()
    refused.must(refused.exit_code not in (0, None), "A non-zero exit code.")


@check(
    21,
    SHOULD,
    "A call of an idempotent tool that is refused with 5xx is retried",
    "busy",
    section="Transport",
    remedy="Retry after a pause, which grows from attempt to attempt.",
)
def retries(busy: Seen) -> None:
    busy.must(len(busy.invocations) > 1, "A second invocation.")
    busy.must_return(RESULT)


@check(
    22,
    GOOD,
    "A call whose acknowledgement was lost is retried only under its id",
    "lost-ack",
    section="Tool invocation",
    remedy="Wait for the callback, or send the same body again: under another id the tool runs a second time.",
)
def retries_keep_id(lost: Seen) -> None:
    ids = [(it.document or {}).get("id") for it in lost.invocations]
    lost.must(len(set(map(repr, ids))) <= 1, f"One `id` for all attempts, not {ids}.")


@check(
    23,
    MUST,
    "A slow call is not invoked again",
    "late",
    section="Lifecycle",
    remedy="Wait for the callback: tools may take as long as they need.",
)
def waits(late: Seen) -> None:
    late.must_invoke_once()
    late.must_return(RESULT)
