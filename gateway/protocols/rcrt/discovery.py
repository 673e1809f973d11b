"""Which tools an RCRT workspace offers, read from its `tool.code.v1` breadcrumbs."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from time import monotonic

from msgspec import Struct

from gateway.core.errors import GatewayError, unavailable
from gateway.core.jsontext import encode
from gateway.core.model import JsonObject, Listing, Rejected, ToolDefinition
from gateway.core.tool_names import DefinitionError
from gateway.offload import Offload
from gateway.protocols.common.listing import MAX_VALUES, most_values
from gateway.protocols.rcrt import breadcrumbs as rcrt
from gateway.protocols.rcrt import tools as rcrt_tools
from gateway.protocols.rcrt.answers import FAILURES, WideAnswerError, check_type
from gateway.protocols.rcrt.client import RcrtClient
from gateway.protocols.rcrt.settings import RcrtBackendSettings
from gateway.upstream.list_reader import ListReader

log = logging.getLogger("gateway.backends")

PAGE = 200  # entries of a list; without its limit the server sends every row it has
MAX_PAGES = 100  # 20,000 tools, what one tool server may list
MAX_PARALLEL_READS = 8
SAME_NAME = 10  # breadcrumbs looked at to see whether one of them has a tool


class _Read(Struct, frozen=True):
    """A record as it was read when the breadcrumb had this stamp."""

    stamp: object
    outcome: ToolDefinition | DefinitionError | None  # None: it was gone
    values: int = 0  # at least how many it holds


class Discovery:
    """Lists the tools, reading only records that changed, and knows whether one is still there."""

    def __init__(self, client: RcrtClient, settings: RcrtBackendSettings, lists: Offload) -> None:
        self._catalog_reader = ListReader(rcrt_tools.read_catalog, client.name, settings, lists)
        self._client = client
        self._workspace = settings.workspace
        self._toolkit = settings.toolkit or client.name
        self._read: dict[str, _Read] = {}
        self._values = 0  # of all that was read
        self._needs_approval = False
        self._has_code = False
        self._seen_at: dict[str, float] = {}  # the names of tools -> when they were last there

    async def list_tools(self) -> Listing:
        """Raises BACKEND_UNAVAILABLE."""
        try:
            crumbs = await self._crumbs()
            self._has_code = bool(crumbs)
            if not crumbs:
                return await self._catalog()
            await self._read_changed(crumbs)
        except GatewayError:
            raise
        except FAILURES as exc:
            raise unavailable(str(exc)) from exc
        self._needs_approval = any(rcrt_tools.APPROVED in crumb.tags for crumb in crumbs)
        listing = self._evaluate(crumbs)
        self._seen_at = {tool.remote_id: monotonic() for tool in listing.tools}
        return listing

    async def has(self, tool: str) -> bool:
        """Whether a runner still has a tool; if the server cannot say, yes."""
        if not self._has_code or monotonic() - self._seen_at.get(tool, float("-inf")) < self._client.timings.seen_s:
            return True
        try:
            crumbs = await self._client.find(rcrt.TOOL_CODE, rcrt_tools.TOOL_TAG + tool, limit=SAME_NAME)
        except FAILURES:
            return True
        is_there = any(
            rcrt_tools.is_callable(crumb, self._workspace, needs_approval=self._needs_approval)
            for crumb in crumbs
            if crumb is not None
        )
        if is_there:
            self._seen_at[tool] = monotonic()
        return is_there

    def concerns(self, crumb: rcrt.Breadcrumb) -> bool:
        """Whether an event may change the list; approval is announced without schema and tags."""
        if crumb.id in self._read:
            return True
        return crumb.schema in (rcrt.TOOL_CODE, rcrt.TOOL_CATALOG) and self._workspace in crumb.tags

    async def _crumbs(self) -> list[rcrt.Breadcrumb]:
        """All tools of the workspace, without their contexts. Pages may overlap when one changes meanwhile."""
        found: dict[str, rcrt.Breadcrumb] = {}
        for page in range(MAX_PAGES):
            crumbs = await self._client.find(
                rcrt.TOOL_CODE, self._workspace, limit=PAGE, offset=page * PAGE, narrow=True
            )
            for crumb in crumbs:
                if crumb is not None:
                    found.setdefault(crumb.id, crumb)
            if len(crumbs) < PAGE:
                break
        return list(found.values())

    async def _read_changed(self, crumbs: list[rcrt.Breadcrumb]) -> None:
        previous = self._read
        self._read = {crumb.id: previous[crumb.id] for crumb in crumbs if crumb.id in previous}
        self._values = sum(read.values for read in self._read.values())
        changed = [crumb for crumb in crumbs if crumb.id not in previous or previous[crumb.id].stamp != _stamp(crumb)]
        for start in range(0, len(changed), MAX_PARALLEL_READS):
            reading = (self._read_one(crumb) for crumb in changed[start : start + MAX_PARALLEL_READS])
            for failure in await asyncio.gather(*reading, return_exceptions=True):
                if failure is not None:
                    raise failure

    async def _read_one(self, crumb: rcrt.Breadcrumb) -> None:
        try:
            record = await self._client.read(crumb.id, narrow=True)
        except WideAnswerError:
            self._read[crumb.id] = _Read(_stamp(crumb), DefinitionError("its record holds too many values"))
            return
        outcome = None if record is None else self._read_record(record)
        values = most_values(encode(outcome)) if isinstance(outcome, ToolDefinition) else 0
        if self._values + values > MAX_VALUES:
            outcome, values = DefinitionError(f"with it the tools hold more than {MAX_VALUES} values"), 0
        self._values += values
        self._read[crumb.id] = _Read(_stamp(crumb), outcome, values)

    def _read_record(self, record: JsonObject) -> ToolDefinition | DefinitionError:
        crumb = rcrt.decode_crumb(record)
        try:
            if crumb is None:
                raise DefinitionError("its record has no id")
            definition, warnings = rcrt_tools.read_tool(record, rcrt_tools.tool_name(crumb), self._toolkit)
        except DefinitionError as exc:
            return exc
        for warning in warnings:
            extra = {"backend": self._client.name, "tool": definition.id, "reason": warning}
            log.warning("a tool's name was adapted", extra=extra)
        return definition

    def _evaluate(self, crumbs: list[rcrt.Breadcrumb]) -> Listing:
        tools, rejected = list[ToolDefinition](), list[Rejected]()
        for crumb in crumbs:
            match self._read[crumb.id].outcome:
                case ToolDefinition() as tool:
                    if rcrt_tools.is_callable(crumb, self._workspace, needs_approval=self._needs_approval):
                        tools.append(tool)
                    else:
                        rejected.append(Rejected(id=tool.id, reason="it is not approved on its tool server"))
                case DefinitionError() as error:
                    tags = (tag for tag in crumb.tags if tag.startswith(rcrt_tools.TOOL_TAG))
                    rejected.append(Rejected(id=next(tags, crumb.id)[:256], reason=str(error)))
                case None:
                    pass  # deleted while we read
        return _without_doubles(tools, rejected)

    async def _catalog(self) -> Listing:
        """Reads the catalogue of a workspace without readable tools; it may list some that no runner has."""
        reply = await self._client.find_text(rcrt.TOOL_CATALOG, self._workspace, limit=1, context=True)
        check_type(reply)
        crumb_id, listing = await self._catalog_reader.read(reply.body)
        if crumb_id:
            self._read = {crumb_id: _Read(None, None)}  # so that its events concern us
        return _without_doubles(list(listing.tools), list(listing.rejected))


def _without_doubles(tools: list[ToolDefinition], rejected: list[Rejected]) -> Listing:
    """Leaves out tools that share a name: a request names nothing else, so either might run."""
    counts = Counter(tool.remote_id for tool in tools)
    reason = "several tools of its tool server have this name"
    doubles = [Rejected(id=tool.id, reason=reason) for tool in tools if counts[tool.remote_id] > 1]
    return Listing(tools=tuple(tool for tool in tools if counts[tool.remote_id] == 1), rejected=(*rejected, *doubles))


def _stamp(crumb: rcrt.Breadcrumb) -> object:
    return (*crumb.stamp, crumb.tags)
