"""The protocols whose tool servers can be judged, and those of which clients can."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from toolgate_conformance.callbacks import Address
from toolgate_conformance.checks import Check
from toolgate_conformance.clients import client_checks, client_subject
from toolgate_conformance.clients.rap import rap_runtime, runtime_checks
from toolgate_conformance.clients.rcrt import rcrt_client, rcrt_client_checks
from toolgate_conformance.http import Client
from toolgate_conformance.rap import Waits, rap_checks, rap_subject
from toolgate_conformance.rcrt import rcrt_checks, rcrt_subject
from toolgate_conformance.rest import FORMS, Form, RestServer, ToolCall, checks_for


class Asked(Struct, frozen=True):
    """What the operator says of a tool server.

    `owner_id` and `agent_id` are of RCRT. Of RAP are `callbacks`, where they are received, and `consent_s`, how long
    to wait for a person who consents. `tell` shows a sentence to the operator.
    """

    url: str
    headers: Mapping[str, str]
    calls: Sequence[ToolCall]
    owner_id: str | None = None
    agent_id: str | None = None
    callbacks: Address | None = None
    consent_s: float = 0.0
    tell: Callable[[str], None] = lambda sentence: None


Open = Callable[[Asked], AbstractAsyncContextManager[Any]]


class Protocol(Struct, frozen=True):
    """How tool servers of a protocol are judged: `open` makes the subject of its `checks`."""

    title: str
    checks: Callable[[], list[Check]]
    open: Open


def _rest(form: Form) -> Protocol:
    @asynccontextmanager
    async def open_(asked: Asked) -> AsyncIterator[RestServer]:
        client = Client(asked.url, asked.headers)
        try:
            yield RestServer(client, form, asked.calls)
        finally:
            await client.aclose()

    return Protocol(form.source, lambda: checks_for(form), open_)


def _open_rap(asked: Asked) -> AbstractAsyncContextManager[Any]:
    waits = Waits(consent_s=asked.consent_s)
    return rap_subject(asked.url, asked.headers, asked.calls, waits, address=asked.callbacks, tell=asked.tell)


def _open_rcrt(asked: Asked) -> AbstractAsyncContextManager[Any]:
    return rcrt_subject(asked.url, asked.headers, asked.calls, asked.owner_id, asked.agent_id)


SERVERS: Mapping[str, Protocol] = {
    **{name: _rest(form) for name, form in FORMS.items()},
    "rap": Protocol("RAP", rap_checks, _open_rap),
    "rcrt": Protocol("RCRT", rcrt_checks, _open_rcrt),
}


class ClientKind(Struct, frozen=True):
    """How clients of a protocol are judged: `open` makes the subject of its `checks` of a command."""

    title: str
    checks: Callable[[], list[Check]]
    open: Callable[[Sequence[str]], AbstractAsyncContextManager[Any]]


CLIENTS: Mapping[str, ClientKind] = {
    **{
        name: ClientKind(form.source, partial(client_checks, form), partial(client_subject, form))
        for name, form in FORMS.items()
    },
    "rap": ClientKind("RAP", runtime_checks, rap_runtime),
    "rcrt": ClientKind("RCRT", rcrt_client_checks, rcrt_client),
}


def all_checks() -> list[Check]:
    """Every check there is, those of tool servers first."""
    servers = [check for protocol in SERVERS.values() for check in protocol.checks()]
    return [*servers, *(check for kind in CLIENTS.values() for check in kind.checks())]
