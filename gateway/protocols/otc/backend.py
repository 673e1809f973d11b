"""The backend for tool servers that speak OTC or OXP over HTTP, in any form real ones do."""

from __future__ import annotations

from collections.abc import Coroutine
from math import inf
from typing import Any, Literal

from gateway.core.errors import unavailable
from gateway.core.jsontext import encode
from gateway.core.model import Invocation, Listing, ToolResult
from gateway.core.ports import Backend, DispatchGate, ServerDialect
from gateway.net.client import Reply
from gateway.protocols.common.listing import NO_REPORT, Group, Report
from gateway.protocols.otc import dialect as rest
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.otc.listing import read_list
from gateway.protocols.otc.oxp_forms import OxpForms
from gateway.protocols.otc.settings import HttpBackendSettings
from gateway.upstream.exchange import HttpExchange
from gateway.upstream.list_reader import ListReader
from gateway.upstream.replica_url import BackendContext

# How a tool server of unknown dialect is asked for its tools, by its protocol.
LIST_DIALECTS: dict[str, ServerDialect] = {"otc": otc_surface.OTC, "oxp": otc_surface.OXP}

UNCLEAR = encode(
    Report(
        notes=(
            Group(
                text="its list shows neither form of OXP, having no OXP-Version header and no $schema: "
                "the first call will show it, and may fail; have the server send the header, or set dialect"
            ),
        )
    )
)


class HttpBackend:
    """One tool server, or several replicas of it.

    Its dialect is fixed by the settings, or learned from each list of its tools; from answers to calls where a list may
    be of either form of OXP.
    """

    deferred: Literal[False] = False
    max_exchange_s = inf

    def __init__(self, name: str, settings: HttpBackendSettings, context: BackendContext) -> None:
        self.name = name
        self._fixed = None if settings.dialect == "auto" else otc_surface.DIALECTS[settings.dialect]
        self._dialect = self._fixed or LIST_DIALECTS[settings.protocol]
        self._exchange = HttpExchange(name, settings, context, self._dialect.request_list())
        self._reader = ListReader(read_list, name, settings, context.lists)
        self._forms: OxpForms | None = None  # while the last list shows none of them

    @property
    def dialect(self) -> str:
        """The wire form in use: fixed, or learned from the last list or from a call."""
        return self._learned.name if self._forms is None or self._forms.spoken else otc_surface.EITHER_OXP

    @property
    def _learned(self) -> ServerDialect:
        return self._dialect if self._forms is None else self._forms.spoken or self._dialect

    @property
    def report(self) -> bytes:
        """What there is to say about the last list (`listings.Report`)."""
        return UNCLEAR if self.dialect == otc_surface.EITHER_OXP else bytes(NO_REPORT)

    def take_over(self, before: Backend) -> None:
        """Takes what the backend that it replaces has learned, until the tool server is listed again."""
        if self._fixed is None and isinstance(before, HttpBackend):
            self._dialect, self._exchange.call_path = before._dialect, before._exchange.call_path
            self._forms = before._forms

    def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Runs a tool; raises as `HttpExchange.call`."""
        if self._forms is not None and self._forms.spoken is None:
            return self._forms.call(self._exchange.call, invocation, gate)
        return self._exchange.call(self._learned, invocation, gate)

    async def list_tools(self) -> Listing:
        """Asks for the catalogue and learns the dialect from it. Raises BACKEND_UNAVAILABLE."""
        return await self._exchange.list_tools(self._read_list)

    async def _read_list(self, reply: Reply) -> Listing:
        if reply.status != 200:
            raise unavailable(f"its answer has status {reply.status}")
        text, has_version = reply.body, reply.header(rest.HEADER) is not None
        del reply
        shown, listing = await self._reader.read(text, has_version=has_version)
        if self._fixed is None and shown == otc_surface.EITHER_OXP:
            if self._forms is None:
                self._forms, self._exchange.call_path = OxpForms(self.name), None
            return listing
        self._forms = None
        learned = self._fixed or otc_surface.DIALECTS[shown]
        if learned is not self._dialect:
            self._dialect, self._exchange.call_path = learned, None
        return listing

    async def challenge_status(self, check_url: str) -> str:
        return await self._exchange.challenge_status(check_url)

    async def aclose(self) -> None:
        await self._exchange.aclose()
