"""Makes the pictures of docs/console.md: each page of a gateway that has something to show, in light and in dark.

`python -m tests.console.pictures [FOLDER]`; it takes two minutes, most of which is traffic for the plots.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright, expect

from gateway.demo.fleet import start_fleet
from tests import plainhttp
from tests.console import programs
from tests.console.site import fleet_backends
from tests.console.visit import Visit, visiting
from tests.support import processes
from tests.support.terminal import ROOT
from tests.support.tokens import SECRET, token

FOLDER = ROOT / "docs/images/console"
SCHEMES = ("light", "dark")
TRAFFIC_S = 75.0  # some steps of the plots
SIZE = {"width": 1120, "height": 760}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Calculator.Add", {"a": 2, "b": 40}),
    ("Calculator.Add", {"a": 2, "b": "forty"}),
    ("Doorbell.Ring", {"doorbell_id": "doorbell1"}),
    ("Crumbs.random", {"min": 1, "max": 6}),
    ("Weather.readStation", {"station": "bergen"}),
    ("No.Tool", {}),
)


@asynccontextmanager
async def demonstration() -> AsyncIterator[processes.GatewayProcess]:
    """The demonstration fleet behind a gateway with a tool server that is away."""
    async with start_fleet() as fleet:
        backends = {**fleet_backends(fleet), "archive": {"protocol": "otc", "url": "http://127.0.0.1:9"}}
        config = processes.settings(
            backends,
            auth={"jwt": [{"issuer": "demo", "secret": SECRET}]},
            rate_limits=[{"name": "per-caller", "key": "caller", "rate": "20/s", "burst": 40}],
            logging={"level": "info"},
        )
        async with processes.gateway(config) as running:
            yield running


async def traffic(url: str, within_s: float) -> None:
    """Calls of several kinds, a few each second."""
    headers = {"authorization": f"Bearer {token('ada', iss='demo')}", "oxp-version": "1.0"}
    ends_at = asyncio.get_running_loop().time() + within_s
    async with plainhttp.async_client() as http:
        while asyncio.get_running_loop().time() < ends_at:
            for tool, arguments in CALLS:
                body = {"tool_id": tool, "input": arguments}
                await http.post(f"{url}/oxp/tools/call", json=body, headers=headers)
            await asyncio.sleep(0.5)


async def _begin_calls(url: str) -> None:
    """Calls that run while the pictures are made."""
    headers = {"authorization": f"Bearer {token('ada', iss='demo')}", "oxp-version": "1.0", "prefer": "respond-async"}
    async with plainhttp.async_client() as http:
        for number, seconds in enumerate((90, 120), 1):
            body = {"tool_id": "Builds.build", "input": {"seconds": seconds}, "call_id": f"build-{number}"}
            await http.post(f"{url}/oxp/tools/call", json=body, headers=headers)


async def _call(visit: Visit, tool: str, fields: dict[str, str]) -> None:
    await visit.open(f"#/tools/{tool}", credential=token("ada", iss="demo"))
    for name, value in fields.items():
        await visit.main.get_by_label(name, exact=True).fill(value)
    await visit.button("Call").click()
    await expect(visit.main.get_by_role("region", name="Outcome of the call")).to_contain_text("Result")


async def _searched(visit: Visit) -> None:
    await visit.open("#/tools?q=wea")
    await visit.sees("Weather")


def _page(path: str, seen: str) -> Callable[[Visit], Awaitable[None]]:
    async def show(visit: Visit) -> None:
        await visit.open(path)
        await visit.sees(seen)

    return show


PAGES: dict[str, Callable[[Visit], Awaitable[None]]] = {
    "overview": _page("#/", "State store"),
    "backends": _page("#/backends", "archive"),
    "tools": _searched,
    "tool": lambda visit: _call(visit, "Calculator.Add", {"a": "2", "b": "40"}),
    "calls": _page("#/calls", "Builds.build"),
    "log": _page("#/log", "Calculator.Add"),
    "configuration": _page("#/configuration", "server.port"),
}


async def _make(browser: Browser, url: str, folder: Path) -> None:
    for scheme in SCHEMES:
        for name, show in PAGES.items():
            async with visiting(browser, url, color_scheme=scheme, viewport=SIZE) as visit:
                await show(visit)
                await visit.page.evaluate("document.activeElement?.blur()")
                await visit.page.screenshot(path=folder / f"{name}-{scheme}.png", animations="disabled")


async def main(folder: Path) -> None:
    """Makes all of them."""
    async with async_playwright() as playwright, demonstration() as running:
        browser = await playwright.chromium.launch(executable_path=programs.browser(), args=["--no-sandbox"])
        await traffic(running.url, TRAFFIC_S)
        await _begin_calls(running.url)
        await _make(browser, running.admin_url, folder)
        await browser.close()


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    chosen.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(chosen))
