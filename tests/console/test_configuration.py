"""The configuration in use: each value with where it was written, and no secret."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests import plainhttp
from tests.console.site import Site
from tests.console.visit import Visit, visiting
from tests.support import processes
from tests.support.changing import file_of
from tests.support.tokens import SECRET
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

MASK = "••••••••"
WORD = "that-nobody-may-ever-see-on-a-page"
AUTHS = {  # of a backend, in all forms that hold a secret
    "bearer": f"bearer-{WORD}",
    "api_key": f"key-{WORD}",
    "jwt": {"secret": f"secret-{WORD}"},
    "header": {"name": "x-lab", "value": f"header-{WORD}"},
}


def line_of(text: str, words: str) -> int:
    """The number of the only line that has these words."""
    (found,) = [number for number, line in enumerate(text.splitlines(), 1) if words in line]
    return found


async def test_each_value_names_the_line_it_was_written_at_or_that_it_is_the_default(visit: Visit, site: Site) -> None:
    text = file_of(site.gateway).read_text("utf-8")
    await visit.open("#/configuration")
    await visit.sees(str(file_of(site.gateway)))
    for path, value, words in (
        ("backends.studio.toolkit", "Studio", '"toolkit": "Studio"'),
        ("logging.level", "debug", '"level": "debug"'),
        ("routes[0].tools", "Forms.*", '"tools": "Forms.*"'),
    ):
        setting = visit.main.get_by_text(path, exact=True).locator("xpath=ancestor::div[1]")
        await expect(setting).to_contain_text(f"{value}gateway.yaml:{line_of(text, words)}")
    default = visit.main.get_by_text("server.max_body", exact=True).locator("xpath=ancestor::div[1]")
    await expect(default).to_contain_text("1MiBdefault")


async def test_the_settings_are_filtered_by_path_value_and_origin(visit: Visit) -> None:
    await visit.open("#/configuration")
    await visit.field("Filter").fill("studio gateway.yaml")
    await expect(visit.main.get_by_text("backends.studio.toolkit", exact=True)).to_be_visible()
    await expect(visit.main.get_by_text("server.port", exact=True)).to_be_hidden()
    await expect(visit.main.get_by_role("heading", name="server")).to_be_hidden()


async def test_no_secret_is_on_the_page_or_in_what_it_is_given(browser: Browser) -> None:
    async with tool_server({"Lab.Echo": echo}) as lab:
        backend = {"protocol": "otc", "url": lab.url}
        config = processes.settings(
            {name: backend | {"auth": {name: value}} for name, value in AUTHS.items()},
            auth={"jwt": [{"secret": SECRET}]},
        )
        async with processes.gateway(config) as running, visiting(browser, running.admin_url) as visit:
            await visit.open("#/configuration")
            masked = visit.main.get_by_text("auth.jwt[0].secret", exact=True).locator("xpath=ancestor::div[1]")
            await expect(masked).to_contain_text(f"{MASK}gateway.yaml:")
            async with plainhttp.async_client() as http:
                given = (await http.get(f"{running.admin_url}/console/api/configuration")).text
            assert given.count(MASK) >= len(AUTHS) + 1
            shown = await visit.page.content()
            for each in (SECRET, WORD):
                assert each not in given
                assert each not in shown


async def test_what_check_says_is_there_with_its_place(visit: Visit, site: Site) -> None:
    line = line_of(file_of(site.gateway).read_text("utf-8"), f'"secret": "{SECRET}"')
    await visit.open("#/configuration")
    remark = visit.main.get_by_role("listitem").filter(has_text="holds a secret in plain text")
    await expect(remark).to_contain_text("warning: auth.jwt[0].secret:")
    await expect(remark).to_contain_text(f"gateway.yaml:{line}")


async def test_a_gateway_without_a_remark_says_so(browser: Browser) -> None:
    async with tool_server({"Lab.Echo": echo}) as lab:
        config = processes.settings({"lab": {"protocol": "otc", "url": lab.url}})
        async with processes.gateway(config) as running, visiting(browser, running.admin_url) as visit:
            await visit.open("#/configuration")
            await visit.sees("Nothing to remark.")
