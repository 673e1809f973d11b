"""Checks of the breadcrumb that requests a tool."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from toolgate_conformance.clients.observation import are_same
from toolgate_conformance.clients.rcrt.breadcrumbs import is_draft, is_json
from toolgate_conformance.clients.rcrt.observation import RcrtObservation
from toolgate_conformance.clients.rcrt.scenarios import INPUT, TOOL
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rcrt.documents import OPENAPI, RUNNER, SERVER
from toolgate_conformance.servers.rcrt.messages import REQUEST
from toolgate_conformance.servers.rcrt.server import WORKSPACE

DISPATCH = f"{RUNNER}: dispatchEventToTool"
CREATE = f"{OPENAPI}: POST /breadcrumbs"
ID_PART = re.compile(r"[A-Za-z0-9]+")
RANDOM_CHARACTERS = 12  # of an id, which other ids lack: 48 bits in hexadecimal

check: Registry[RcrtObservation] = Registry()


@check(10, MUST, CREATE)
def request_is_breadcrumb(plain: RcrtObservation) -> None:
    """A request is a breadcrumb of the schema `tool.request.v1`.

    Fix: POST schema_name, title, tags and context as JSON; nothing runs an agent.response.v1.
    """
    draft = plain.asked()
    plain.must(is_json(plain.creations[0][0]), "The content type application/json.")
    plain.must(is_draft(draft), "A string in `title`, strings in `tags`, and a `context`.")
    plain.must(draft.get("schema_name") == REQUEST, f"`schema_name` {REQUEST}.")


@check(11, MUST, DISPATCH)
def request_is_tagged(plain: RcrtObservation) -> None:
    """A request has the tags `tool:request` and `workspace:tools`.

    Fix: Add both tags, and leave out health:check: the runner drops other requests without a response.
    """
    tags = plain.asked().get("tags") or []
    for tag in ("tool:request", WORKSPACE):
        plain.must(tag in tags, f"The tag {tag}.")
    plain.must("health:check" not in tags, "No tag health:check.")


@check(12, MUST, DISPATCH)
def request_names_tool(plain: RcrtObservation) -> None:
    """A request names the tool.

    Fix: Send the name of the tool in context.tool, with its case unchanged.
    """
    plain.must(plain.context().get("tool") == TOOL, f"`tool` {TOOL}.")


@check(13, MUST, DISPATCH)
def input_is_sent(plain: RcrtObservation) -> None:
    """The input is sent unchanged.

    Fix: Send it as an object in context.input, even an empty one, and add nothing to it.
    """
    plain.must(are_same(plain.context().get("input"), INPUT), f"`input` {json.dumps(INPUT)}.")


@check(14, MUST, DISPATCH)
def id_is_string(plain: RcrtObservation) -> None:
    """The id of a request is a string, or left out.

    Fix: Send a string in context.requestId: with a number the tool runs, and the response is an error.
    """
    context = plain.context()
    found = context.get("requestId")
    fits = "requestId" not in context or (isinstance(found, str) and found != "")
    plain.must(fits, f"A string in `requestId`, not {found!r}.")


@check(15, MUST, DISPATCH)
def ids_differ(plain: RcrtObservation, again: RcrtObservation) -> None:
    """Different calls have different request ids.

    Fix: Generate a new id for each call: responses of earlier calls stay in the lists.
    """
    one, other = plain.context().get("requestId"), again.context().get("requestId")
    again.must(other is None or one != other, f"A `requestId` other than {one!r}, which an earlier call had.")


@check(16, GOOD, f"{SERVER}: list_breadcrumbs")
def id_is_secret(plain: RcrtObservation, again: RcrtObservation) -> None:
    """A request id cannot be guessed.

    Fix: Put a random UUID into it: anyone can list breadcrumbs by the tag of a request.
    """
    one, other = plain.context().get("requestId"), again.context().get("requestId")
    if other is None:
        return  # the id of the breadcrumb, which the server makes
    parts = set(ID_PART.findall(str(other))) - set(ID_PART.findall(str(one)))
    count = sum(len(part) for part in parts if not part.isdecimal())  # decimals are counters or times
    again.must(count >= RANDOM_CHARACTERS, f"A random part in `requestId`, not {other!r} after {one!r}.")


@check(17, GOOD, "RCRT agent-executor.ts")
def no_tag_of_responses(plain: RcrtObservation) -> None:
    """A request has no tag that begins with `request:`.

    Fix: Use a tag of another form to find the request again: responses have these, and agents look for them.
    """
    tags = plain.asked().get("tags") or []
    found = [tag for tag in tags if str(tag).startswith("request:")]
    plain.must(not found, f"No tag {found}.")


@check(18, GOOD, CREATE)
def has_ttl(plain: RcrtObservation) -> None:
    """A request has a time to live.

    Fix: Send in ttl when the server may delete it, an RFC 3339 time: requests without one are kept forever.
    """
    ttl = plain.asked().get("ttl")
    sent_at = datetime.now(UTC) - timedelta(seconds=monotonic() - plain.creations[0][0].at_s)
    ends_at = _time(ttl)
    plain.must(ends_at is not None and ends_at > sent_at, f"A time in the future in `ttl`, not {ttl!r}.")


@check(19, MUST, DISPATCH)
def pending_is_left_alone(late: RcrtObservation) -> None:
    """A pending request is neither changed nor deleted.

    Fix: Leave it alone until there is a response: a change runs the tool again, and what is deleted may never run.
    """
    late.asked()
    for crumb in late.stored:
        base = f"/breadcrumbs/{crumb.id}"
        changes = [
            it for name in ("tags/add", "tags/remove", "context/merge") for it in late.sent_to("POST", f"{base}/{name}")
        ]
        late.must(not changes and not late.sent_to("PATCH", base), "No change of the request.")
        deleted = [request for request, _ in late.sent_to("DELETE", base) if request.at_s < late.responded_at_s]
        late.must(not deleted, "No DELETE of the request before its response.")


@check(20, GOOD, CREATE)
def keeps_path(prefixed: RcrtObservation) -> None:
    """The base URL may have a path and a trailing slash.

    Fix: Strip the trailing slash from the base URL, then append the paths: the server may be behind a proxy.
    """
    wanted = prefixed.scenario.path.rstrip("/") + "/breadcrumbs"
    prefixed.must(bool(prefixed.creations), f"A request POST {wanted}.")
    prefixed.must_return()


def _time(value: Any) -> datetime | None:
    """An RFC 3339 time; None if it is none."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
