"""The gateways and tool servers that flow tests have."""

from __future__ import annotations

from tests.flow.conftest import caller, demo, fleet, server, start

__all__ = ["caller", "demo", "fleet", "server", "start"]
