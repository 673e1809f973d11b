"""What is wrong, or rarely meant, with what `toolgate check --live` has found: one sentence each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway.auth.decisions import UNDECIDED
from gateway.cli.output import count
from gateway.core.model import JsonObject

LONG_DESCRIPTION = 1024  # characters; the tool interfaces of common models cut off there
MAX_NAMED = 20  # tools in one line, or lines of one kind about one backend


class Remark(NamedTuple):
    """A problem for an operator to look at; `kind` is a word for programs, `backend` the one it is about, if any."""

    kind: str
    backend: str | None
    text: str


def remarks_on(found: JsonObject) -> Iterator[Remark]:
    """All problems, the gravest first."""
    backends = found["backends"].items()
    yield from _down(found)
    for name, backend in backends:
        yield from _rejected(name, backend["rejected"])
    for name, backend in backends:
        yield from _noted(name, (backend["report"] or {}).get("notes", ()))
    for name, backend in backends:
        if unrouted := backend["unrouted"]:
            text = f"{name}: no route publishes {count(len(unrouted), 'tool')}: {named(unrouted)}"
            yield Remark("unrouted", name, text)
    yield from _unused(found["routes"])
    yield from _descriptions(found["tools"])
    yield from _open_inputs(found["tools"])
    for tool in found["tools"]:
        if reason := tool["unchecked_output"]:
            text = f"{tool['backend']}: results of {tool['id']} cannot be checked: {reason}"
            yield Remark("output_unchecked", tool["backend"], text)


def _down(found: JsonObject) -> Iterator[Remark]:
    """What does not answer."""
    state = found["state"]
    if not state["up"]:
        yield Remark("state_down", None, f"state is down: {state['cause']}")
    if (authorization := found["authorization"]) is not None:
        yield from _of_authorization(authorization)
    if (telemetry := found["telemetry"]) is not None and not telemetry["up"]:
        yield Remark("telemetry_down", None, f"telemetry: {telemetry['url']} takes no spans: {telemetry['cause']}")
    for name, issuer in found["issuers"].items():
        if not issuer["up"]:
            yield Remark("issuer_down", None, f"auth: the keys of {name} cannot be fetched: {issuer['last_error']}")
    for name, backend in found["backends"].items():
        if not backend["up"]:
            yield Remark("backend_down", name, f"{name} is down: {backend['cause']}")
        elif silent := backend["silent"]:
            text = "; ".join(f"{replica} does not answer ({why})" for replica, why in silent.items())
            yield Remark("replica_down", name, f"{name}: {text}")


def _of_authorization(found: JsonObject) -> Iterator[Remark]:
    """Whether the authorization service decides, and whether it has a policy."""
    if not found["up"]:
        yield Remark("authorization_down", None, f"authorize: the service gives no decision: {found['cause']}")
    elif found["reason"] == UNDECIDED:
        text = "authorize: the service answers without a decision; is there a policy at the path of its url?"
        yield Remark("authorization_undecided", None, text)


def _rejected(name: str, rejected: Sequence[JsonObject]) -> Iterator[Remark]:
    for one in rejected[:MAX_NAMED]:
        what = "" if one["id"] == name else f"{one['id']} is not published: "  # else it is about all of them
        yield Remark("not_published", name, f"{name}: {what}{one['reason']}")
    if len(rejected) > MAX_NAMED:
        text = f"{name}: {count(len(rejected) - MAX_NAMED, 'more tool')} not published; --json has all of them"
        yield Remark("not_published", name, text)


def _noted(name: str, notes: Sequence[JsonObject]) -> Iterator[Remark]:
    """What a backend itself finds worth a look in its list."""
    for group in notes[:MAX_NAMED]:
        about = f": {named(group['ids'])}" if group["ids"] else ""
        yield Remark("listing_note", name, f"{name}: {group['text'].rstrip('.')}{about}")
    if len(notes) > MAX_NAMED:
        text = f"{name}: {count(len(notes) - MAX_NAMED, 'more note')} on its list; --json has all of them"
        yield Remark("listing_note", name, text)


def _unused(routes: Sequence[JsonObject]) -> Iterator[Remark]:
    """Routes that no tool takes: their glob has a typing error, or an earlier one leaves them nothing."""
    for route in routes:
        if route["takes"] != 0:
            continue
        why = "earlier routes match all of its tools" if route["fits"] else "it matches no tool"
        does = "hides" if route["deny"] else "publishes"
        text = f"{route['backend']}: route {route['number']} ({route['tools']}) {does} nothing: {why}"
        yield Remark("route_unused", route["backend"], text)


def _descriptions(tools: Sequence[JsonObject]) -> Iterator[Remark]:
    """Tools without a description, or with one that models see only the beginning of."""
    missing, long = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for tool in tools:
        if not tool["description"].strip():
            missing[tool["backend"]].append(tool["id"])
        elif len(tool["description"]) > LONG_DESCRIPTION:
            long[tool["backend"]].append(tool["id"])
    for name, ids in missing.items():
        text = f"{name}: {count(len(ids), 'tool')} without a description, so models cannot know their use: {named(ids)}"
        yield Remark("description_missing", name, text)
    for name, ids in long.items():
        text = f"{name}: {count(len(ids), 'description')} of more than {LONG_DESCRIPTION} characters, "
        yield Remark("description_long", name, f"{text}of which many models see only the beginning: {named(ids)}")


def _open_inputs(tools: Sequence[JsonObject]) -> Iterator[Remark]:
    """Tools that say nothing of their input, or not where it is looked for."""
    found = defaultdict[str, list[str]](list)
    for tool in tools:
        if tool["takes_anything"]:
            found[tool["backend"]].append(tool["id"])
    for name, ids in found.items():
        text = f"{name}: {count(len(ids), 'tool')} without a schema of the input, so that arguments are not checked: "
        yield Remark("input_unchecked", name, text + named(ids))


def named(ids: Sequence[str]) -> str:
    """Some ids, in one line."""
    return ", ".join(ids[:MAX_NAMED]) + (", ..." if len(ids) > MAX_NAMED else "")
