"""Which tools may yet appear: those that routes publish of backends that have never been listed.

Calls of such tools are refused as unavailable, not as unknown, which agents take for final.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from gateway.catalogue.evaluation import ToolSource
from gateway.catalogue.published import Route, matcher
from gateway.core.model import ToolRef
from gateway.core.ports import Caller
from gateway.core.tool_names import DIGEST_LENGTH

DIGEST_NAME = re.compile(rf"([A-Za-z0-9_]+)_[0-9a-f]{{{DIGEST_LENGTH}}}")
WILDCARD = re.compile(r"[*?@]")


def backend_of(sources: Sequence[ToolSource], ref: ToolRef, caller: Caller) -> str | None:
    """The name of a backend, of those never listed, that may have a tool which this caller may use; None if none can.

    Each backend's tools take the first of its own routes, in the order of the file.
    """
    for source in sources:
        if _may_use(source.routes.values(), ref, caller):
            return source.name
    return None


def _may_use(routes: Collection[Route], ref: ToolRef, caller: Caller) -> bool:
    if not ref.by_name:
        return _publishes(routes, ref.tool, ref.version, caller)
    if any(_publishes(routes, tool, ref.version, caller) for tool in tools_named(ref.tool)):
        return True
    begin = digest_beginning(ref.tool)
    return begin is not None and any(may_begin(route, begin) for route in routes if _is_open(route, caller))


def _publishes(routes: Collection[Route], tool: str, version: str | None, caller: Caller) -> bool:
    """Whether the first route that matches publishes a tool to a caller; without a version, some version of it."""
    for route in routes:
        glob, _, of_some = route.tools.partition("@")
        if not (matcher(glob)(tool) if version is None else route.matches(tool, version)):
            continue
        if _is_open(route, caller):
            return True
        if version is not None or not of_some:
            return False  # it takes every version that may be meant
    return False


def _is_open(route: Route, caller: Caller) -> bool:
    return not route.deny and route.scopes <= caller.scopes


def tools_named(name: str) -> Iterator[str]:
    """The tools that may have a name: `A.B_C` and `A_B.C` have `A_B_C` (see naming.published_name)."""
    if "-" in name:
        return  # callers may write it, but no tool has such a name
    for at, character in enumerate(name[:-1]):
        if character == "_" and at:
            yield f"{name[:at]}.{name[at + 1 :]}"


def digest_beginning(name: str) -> str | None:
    """What stands before the digest in a name that ends in one; None if it does not."""
    match = DIGEST_NAME.fullmatch(name)
    return match and match[1]


def may_begin(route: Route, beginning: str) -> bool:
    """Whether a tool whose name begins so, before a digest, may match a route, by what stands before its wildcards."""
    fixed = WILDCARD.split(route.tools, maxsplit=1)[0].replace(".", "_", 1)
    return fixed.startswith(beginning) or (len(fixed) < len(route.tools) and beginning.startswith(fixed))
