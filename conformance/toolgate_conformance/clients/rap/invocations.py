"""Checks of how a RAP runtime reads toolsets, invokes tools, and retries."""

from __future__ import annotations

import json

from toolgate_conformance.clients.observation import are_same
from toolgate_conformance.clients.rap.observation import TOOLSET, RapObservation
from toolgate_conformance.clients.rap.scenarios import INPUT, RESULT, TOOL
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry

check: Registry[RapObservation] = Registry()


@check(1, MUST, "Toolsets")
def reads_toolset(plain: RapObservation) -> None:
    """The toolset is read from `/.well-known/rap-toolset`.

    Fix: GET the toolset before the first invocation.
    """
    fits = any(it.method == "GET" and it.path == TOOLSET for it in plain.requests)
    plain.must(fits, f"A request GET {TOOLSET}.")


@check(2, MUST, "Toolsets")
def keeps_path(prefixed: RapObservation) -> None:
    """The base URL may have a path and a trailing slash.

    Fix: Strip the trailing slash from the base URL, then append /.well-known/rap-toolset.
    """
    wanted = prefixed.scenario.path.rstrip("/") + TOOLSET
    prefixed.must(any(it.path == wanted for it in prefixed.requests), f"A request GET {wanted}.")


@check(3, MUST, "Toolsets, Validation")
def rejects_toolset(unfit_toolset: RapObservation) -> None:
    """A toolset that fails validation offers no tools.

    Fix: Reject the whole toolset if one of its tools lacks a description.
    """
    unfit_toolset.must(not unfit_toolset.invocations, "No invocation.")
    unfit_toolset.must(unfit_toolset.exit_code != 0, "A non-zero exit code.")


@check(10, MUST, "Tool invocation")
def invokes(plain: RapObservation) -> None:
    """An invocation is a POST of JSON to `endpoint`, with every required member.

    Fix: Send operation, arguments, id, callback_url and group_id, with the content type application/json.
    """
    members = plain.invoked()
    plain.must_post_json(plain.invocations[0])
    plain.must(members.get("operation") == TOOL, f"`operation` {TOOL}.")
    for name in ("id", "callback_url", "group_id"):
        found = members.get(name)
        plain.must(isinstance(found, str) and found != "", f"A string in `{name}`.")
    for name in ("call_id", "user_id"):
        plain.must(isinstance(members.get(name), str | None), f"A string or null in `{name}`.")
    plain.must(isinstance(members.get("thread_ancestors"), list | None), "A list or null in `thread_ancestors`.")


@check(11, MUST, "Tool invocation")
def sends_arguments(plain: RapObservation) -> None:
    """The arguments are sent unchanged.

    Fix: Send the arguments as an object in `arguments`, and add nothing to them.
    """
    plain.must(are_same(plain.invoked().get("arguments"), INPUT), f"`arguments` {json.dumps(INPUT)}.")


@check(12, MUST, "Tool invocation")
def ids_differ(plain: RapObservation, again: RapObservation) -> None:
    """Different calls have different ids.

    Fix: Generate a new id for each call, such as a UUID.
    """
    one, other = plain.invoked().get("id"), again.invoked().get("id")
    again.must(one != other, f"An `id` other than {one!r}, which an earlier call had.")


@check(20, MUST, "Transport")
def refusal_is_final(refused: RapObservation) -> None:
    """A call that is refused with 4xx is not retried, and fails.

    Fix: Report the failure to the caller.
    """
    refused.must_invoke_once()
    refused.must(refused.exit_code not in (0, None), "A non-zero exit code.")


@check(21, SHOULD, "Transport")
def retries(busy: RapObservation) -> None:
    """A call of an idempotent tool that is refused with 5xx is retried.

    Fix: Retry after a pause, which grows from attempt to attempt.
    """
    busy.must(len(busy.invocations) > 1, "A second invocation.")
    busy.must_return(RESULT)


@check(22, GOOD, "Tool invocation")
def retries_keep_id(lost_ack: RapObservation) -> None:
    """A call whose acknowledgement was lost is retried only under its id.

    Fix: Wait for the callback, or send the same body again: under another id the tool runs a second time.
    """
    ids = [(it.document or {}).get("id") for it in lost_ack.invocations]
    lost_ack.must(len(set(map(repr, ids))) <= 1, f"One `id` for all attempts, not {ids}.")


@check(23, MUST, "Lifecycle")
def waits(late: RapObservation) -> None:
    """A slow call is not invoked again.

    Fix: Wait for the callback: tools may take as long as they need.
    """
    late.must_invoke_once()
    late.must_return(RESULT)
