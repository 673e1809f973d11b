"""The form of a tool's arguments: what is typed in is what the tool gets, and what is wrong is said where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.console.site import Site
from tests.console.visit import Visit

pytestmark = pytest.mark.anyio

EVERYTHING = {
    "name": "Ada",
    "note": "a\nb",
    "count": 7,
    "weight": 0.25,
    "express": True,
    "colour": "green",
    "size": None,
    "address": {"street": "Main Street", "zip": "5003"},
    "items": [{"article": "pen", "amount": 2}, {"article": "ink"}],
    "tags": ["new"],
    "payment": {"cash": 12.5},
    "anything": {"deep": [1, {"er": None}]},
}


async def sent(visit: Visit, site: Site) -> Any:
    """What the tool got from the call that the page has just made."""
    await expect(visit.outcome).to_contain_text("Result")
    return site.own.calls("Forms.Everything")[-1].call["input"]


def group(visit: Visit, name: str) -> Locator:
    return visit.main.get_by_role("group", name=name, exact=True)


async def fill_in(visit: Visit) -> None:
    """Types everything in."""
    for name, text in {"name": "Ada", "note": "a\nb", "count": "7", "weight": "0.25"}.items():
        await visit.field(name).fill(text)
    for name, chosen in {"express": "true", "colour": "green", "size": "null"}.items():
        await visit.field(name).select_option(label=chosen)
    for name in ("address", "items", "tags", "payment"):
        await visit.field(f"Send {name}").check()
    address = group(visit, "address")
    await address.get_by_label("street", exact=True).fill("Main Street")
    await address.get_by_label("zip", exact=True).fill("5003")
    items = group(visit, "items")
    for number, article in enumerate(("ink", "pen")):
        await items.get_by_role("button", name="Add item").click()
        await items.get_by_label("article", exact=True).nth(number).fill(article)
    await items.get_by_label("amount", exact=True).nth(1).fill("2")
    await items.get_by_role("button", name="Move item 2 up").click()
    tags = group(visit, "tags")
    await tags.get_by_role("button", name="Add item").click()
    await tags.get_by_role("button", name="Add item").click()
    await tags.get_by_role("textbox").first.fill("new")
    await tags.get_by_role("button", name="Remove item 2").click()
    await visit.field("payment").first.select_option(label="cash")
    await visit.field("cash").fill("12.5")
    await visit.field("anything").fill('{"deep": [1, {"er": null}]}')


async def test_a_call_with_nothing_but_what_is_required_sends_the_defaults_and_no_more(
    visit: Visit, site: Site
) -> None:
    await visit.open(credential=site.token)
    await visit.call("Forms.Everything", {"name": "Ada"})
    assert await sent(visit, site) == {"name": "Ada", "count": 3}


async def test_every_kind_of_field_arrives_as_it_was_typed_in(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Forms.Everything", credential=site.token)
    await fill_in(visit)
    await visit.button("Call").click()
    assert await sent(visit, site) == EVERYTHING


async def test_form_and_json_change_into_each_other_without_loss(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Forms.Everything", credential=site.token)
    await visit.button("JSON").click()
    raw = visit.field("Arguments")
    await raw.fill(json.dumps(EVERYTHING))
    await visit.button("Form").click()
    await expect(visit.field("name")).to_have_value("Ada")
    await expect(group(visit, "address").get_by_label("street", exact=True)).to_have_value("Main Street")
    await visit.button("JSON").click()
    assert json.loads(await raw.input_value()) == EVERYTHING
    await visit.button("Call").click()
    assert await sent(visit, site) == EVERYTHING


async def test_numbers_keep_every_digit(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Forms.Everything", credential=site.token)
    await visit.field("name").fill("Ada")
    await visit.field("weight").fill("12345678901234567890.5")
    await visit.field("anything").fill("9007199254740993")
    await visit.button("Call").click()
    await sent(visit, site)
    body = site.own.calls("Forms.Everything")[-1].body
    assert b"9007199254740993" in body


async def test_text_that_is_no_json_is_said_at_its_field_and_nothing_is_sent(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Forms.Everything", credential=site.token)
    before = len(site.own.calls("Forms.Everything"))
    await visit.field("name").fill("Ada")
    await visit.field("anything").fill("{oops")
    await visit.button("Call").click()
    await expect(visit.field("anything")).to_have_attribute("aria-invalid", "true")
    await expect(visit.field("anything")).to_be_focused()
    await visit.sees("is not JSON")
    assert len(site.own.calls("Forms.Everything")) == before


async def test_what_the_gateway_refuses_is_said_at_the_field_it_is_about(visit: Visit, site: Site) -> None:
    """By hand, a form can send anything: the gateway is the judge."""
    await visit.open("#/tools/Forms.Everything", credential=site.token)
    await visit.field("name").fill("A")
    await visit.field("count").fill("many")
    await visit.field("Send address").check()
    zip_code = group(visit, "address").get_by_label("zip", exact=True)
    await group(visit, "address").get_by_label("street", exact=True).fill("Main Street")
    await zip_code.fill("x")
    await visit.button("Call").click()
    await expect(visit.outcome).to_contain_text("Refused: the tool has not run")
    for field in (visit.field("name"), visit.field("count"), zip_code):
        await expect(field).to_have_attribute("aria-invalid", "true")
    await expect(visit.field("note")).not_to_have_attribute("aria-invalid", "true")
    await expect(visit.field("name")).to_be_focused()

    await visit.field("name").fill("Ada")
    await visit.field("count").fill("4")
    await zip_code.fill("5003")
    await visit.button("Call").click()
    assert (await sent(visit, site))["count"] == 4
    await expect(visit.field("name")).not_to_have_attribute("aria-invalid", "true")
