"""What several checks of RAP servers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.servers.rap.invocation import Invocation
from toolgate_conformance.servers.rap.server import RapServer

NOWHERE = "kit_no_such_operation"
MAX_NAME = 128  # characters
TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "\n    at ", "node_modules/", "panic: ")
NOT_SERVED = (404, 405)


async def not_dropped(server: RapServer, invocation: Invocation) -> None:
    """Checks that an invalid invocation is refused or leads to a result. Raises UnfitError."""
    answer = invocation.acknowledgement()
    answer.must(answer.status < 500, "Status 200, or a status of 4xx.")
    if invocation.is_accepted:
        result = await server.result(invocation)
        invocation.must(result is not None, "A tool_result after the acknowledgement.")


async def ensure_served(server: RapServer, path: str) -> None:
    """Raises SkippedError for a notice that the server does not know: serving it is a check of its own."""
    answer = await server.notice(path, {"thread_id": "kit-thread", "tool_call_id": "kit-unknown"})
    if answer.status in NOT_SERVED:
        raise SkippedError(f"The server does not serve {path}.")


def ensure_credential(server: RapServer) -> None:
    if not server.has_credential:
        raise SkippedError("No credential was given, so none can be left out: name one with --token.")


def is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MAX_NAME


def has_trace(text: str) -> bool:
    return any(trace in text for trace in TRACES)
