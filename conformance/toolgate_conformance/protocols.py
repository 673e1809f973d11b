"""The protocols whose tool servers can be judged, and those of which clients can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct

from toolgate_conformance import clients, servers
from toolgate_conformance.callbacks import Address
from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import Check
from toolgate_conformance.clients.rap.subject import RapRuntime
from toolgate_conformance.clients.rcrt.subject import RcrtClient
from toolgate_conformance.clients.rest.subject import RestClient
from toolgate_conformance.registry import checks_of
from toolgate_conformance.servers.rap.invocation import Waits
from toolgate_conformance.servers.rap.subject import rap_subject
from toolgate_conformance.servers.rcrt.server import rcrt_subject
from toolgate_conformance.servers.rest.forms import FORMS, Form
from toolgate_conformance.servers.rest.server import rest_subject

GivenT = TypeVar("GivenT")


class ServerOptions(Struct, frozen=True):
    """What the operator says of a tool server."""

    url: str
    headers: Mapping[str, str]  # the credentials, if there are any
    calls: Sequence[ToolCall]  # that may be made
    owner_id: str | None = None  # of RCRT
    agent_id: str | None = None  # of RCRT
    callbacks: Address | None = None  # of RAP: where they are received
    consent_s: float = 0.0  # of RAP: how long to wait for a person who consents
    tell: Callable[[str], None] = lambda sentence: None  # shows a sentence to the operator


class Kind(Struct, Generic[GivenT], frozen=True):
    """One kind of programs, and how they are judged."""

    title: str
    checks: Callable[[], list[Check]]
    open: Callable[[GivenT], AbstractAsyncContextManager[Any]]  # the program that the checks get


def _open_rest(form: Form, options: ServerOptions) -> AbstractAsyncContextManager[Any]:
    return rest_subject(form, options.url, options.headers, options.calls)


def _open_rap(options: ServerOptions) -> AbstractAsyncContextManager[Any]:
    waits = Waits(consent_s=options.consent_s)
    address, tell = options.callbacks, options.tell
    return rap_subject(options.url, options.headers, options.calls, waits, address=address, tell=tell)


def _open_rcrt(options: ServerOptions) -> AbstractAsyncContextManager[Any]:
    return rcrt_subject(options.url, options.headers, options.calls, options.owner_id, options.agent_id)


SERVERS: Mapping[str, Kind[ServerOptions]] = {
    **{
        name: Kind(
            form.source,
            partial(checks_of, servers.rest.THEMES, form.prefix, form.source, name),
            partial(_open_rest, form),
        )
        for name, form in FORMS.items()
    },
    "rap": Kind("RAP", partial(checks_of, servers.rap.THEMES, "RAP", "RAP"), _open_rap),
    "rcrt": Kind("RCRT", partial(checks_of, servers.rcrt.THEMES, "RCRT"), _open_rcrt),
}
CLIENTS: Mapping[str, Kind[Sequence[str]]] = {  # each is given its command
    **{
        name: Kind(
            form.source,
            partial(checks_of, clients.rest.THEMES, f"{form.prefix}C", form.source, name),
            partial(RestClient, form),
        )
        for name, form in FORMS.items()
    },
    "rap": Kind("RAP", partial(checks_of, clients.rap.THEMES, "RAPC", "RAP"), RapRuntime),
    "rcrt": Kind("RCRT", partial(checks_of, clients.rcrt.THEMES, "RCRTC"), RcrtClient),
}


def all_checks() -> list[Check]:
    """Every check there is, those of tool servers first."""
    kinds: list[Kind[Any]] = [*SERVERS.values(), *CLIENTS.values()]
    return [check for kind in kinds for check in kind.checks()]
