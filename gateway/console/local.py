"""The view of one process: what its gateway knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from gateway import __version__
from gateway.assembly.authenticators import Issuers
from gateway.assembly.generation import Current
from gateway.assembly.reporting import GatewayHealth
from gateway.console import backends, overview, tool
from gateway.console.calls import RunningCalls
from gateway.console.configuration import ConfigurationPage
from gateway.console.history import History
from gateway.console.log import RecentLines, quantiles
from gateway.console.tools import ToolSearch
from gateway.console.view import Answering
from gateway.core.model import JsonObject
from gateway.http.openapi import credentials_for
from gateway.metrics import Metrics
from gateway.protocols.otc import surface as otc_surface
from gateway.settings import Config
from gateway.state.port import State


def session_of(config: Config, public_url: str) -> JsonObject:
    """What a page has to know before it asks anything else, but for who has logged in."""
    has_mcp = config.mcp.enabled
    return {
        "version": __version__,
        "principal": None,
        "is_public": False,
        "public_url": public_url,
        "mcp_path": config.mcp.path if has_mcp else None,
        "dialects": [*otc_surface.DIALECTS, *(("mcp",) if has_mcp else ())],
        "credentials": list(credentials_for(config.auth)),
    }


class LocalView(Answering):
    """Answers for one gateway."""

    def __init__(
        self,
        *,
        current: Current,
        state: State,
        issuers: Issuers,
        health: GatewayHealth,
        public_url: Callable[[], str],
        metrics: Metrics,
        history: History,
        recent: RecentLines,
        running: RunningCalls,
        file: Path | None,
    ) -> None:
        self._current = current
        self._state = state
        self._issuers = issuers
        self._health = health
        self._public_url = public_url
        self._metrics = metrics
        self._history = history
        self._recent = recent
        self._running = running
        self._search = ToolSearch()
        self._configuration = ConfigurationPage(file)
        self._answers = {
            "session": self._session,
            "overview": self._overview,
            "backends": self._backends,
            "refresh": self._refresh,
            "tools": self._tools,
            "tool": self._tool,
            "tool_facts": self._tool_facts,
            "calls": self._calls,
            "cancel": running.cancel,
            "log": self._log,
            "configuration": self._read_configuration,
        }

    async def _session(self, about: JsonObject) -> JsonObject:
        self._recent.watch()
        return session_of(self._current.generation().config, self._public_url())

    async def _overview(self, about: JsonObject) -> JsonObject:
        shared_part = await overview.about_gateway(self._current.generation(), self._state, self._issuers.status())
        return overview.about_process(self._health.status, self._metrics, self._history) | shared_part

    async def _backends(self, about: JsonObject) -> JsonObject:
        return backends.backends(self._current.generation(), self._state)

    async def _refresh(self, about: JsonObject) -> JsonObject:
        return backends.refresh(self._current.generation(), about)

    async def _tools(self, about: JsonObject) -> JsonObject:
        return self._search.find(self._current.generation(), about)

    async def _tool_facts(self, about: JsonObject) -> JsonObject:
        """A tool without how often it was called, which the supervisor of several processes knows."""
        return tool.tool_page(self._current.generation(), self._recent, about)

    async def _tool(self, about: JsonObject) -> JsonObject:
        page = await self._tool_facts(about)
        return with_calls(page, self._metrics)

    async def _calls(self, about: JsonObject) -> JsonObject:
        return self._running.as_json()

    async def _log(self, about: JsonObject) -> JsonObject:
        return self._recent.since(about)

    async def _read_configuration(self, about: JsonObject) -> JsonObject:
        return await asyncio.to_thread(self._configuration.as_json, self._current.generation().config, self._metrics)


def with_calls(page: JsonObject, metrics: Metrics) -> JsonObject:
    """The page of a tool with how its calls ended, and how long the latest of them took."""
    seconds = page.pop("seconds")
    outcomes = tool.outcomes_of(metrics, page["name"], page["backend"])
    return page | {"outcomes": outcomes, "recent": quantiles(seconds)}
