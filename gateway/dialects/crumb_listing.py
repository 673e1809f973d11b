"""Reads a `tool.catalog.v1`, which holds all tools of an RCRT workspace, as text; the counterpart of `listings`."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gateway.dialects import rcrt, rcrt_tools
from gateway.dialects.listings import MAX_SHOWN, Gathered, decode_terms
from gateway.jsontext import JsonError, decode, encode
from gateway.model import Rejected, ToolDefinition


class Summary(Struct, frozen=True):
    """What was read besides tools: the id of the breadcrumb, if there is one. `failure`: why there is no list."""

    crumb_id: str = ""
    rejected: tuple[Rejected, ...] = ()
    failure: str = ""


decode_summary = msgspec.json.Decoder(Summary).decode


def read_catalog(terms: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads a list of at most one breadcrumb. Returns a Summary, then arrays of ToolDefinition, all as JSON text."""
    bounds = decode_terms(terms)
    try:
        found = decode(text, rcrt.MAX_DEPTH)
    except JsonError as exc:
        return (encode(Summary(failure=f"not JSON: {exc}")),)
    if not isinstance(found, list):
        return (encode(Summary(failure="not a list")),)
    crumb = rcrt.decode_crumb(found[0]) if found else None
    gathered = Gathered(bounds)
    listed = rcrt_tools.read_catalog(crumb.context if crumb else None, bounds.toolkit)
    for count, (name, outcome) in enumerate(listed, 1):
        if count > bounds.max_tools:
            gathered.cut_off()
            break
        if isinstance(outcome, ToolDefinition):
            gathered.take(outcome)
        else:
            gathered.reject(name[:MAX_SHOWN], str(outcome))
    summary = Summary(crumb_id=crumb.id if crumb else "", rejected=tuple(gathered.rejected))
    return (encode(summary), *gathered.parts())
