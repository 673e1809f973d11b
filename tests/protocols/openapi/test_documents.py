"""Documents that change while the gateway runs: what callers see of it, and when the old tools stay."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.flow.conftest import Start
from tests.flow.gateways import config, listed_until, until
from tests.support.httpapi import document, http_api, operation, parameter

pytestmark = pytest.mark.anyio

OFTEN = {"discovery": {"refresh": "1s"}}
SIX = {f"/{name}": {"get": operation(name)} for name in "abcdef"}


def named(*names: str) -> list[str]:
    return [f"Api.{name}@1.0.0" for name in names]


async def test_openapi_56_a_new_document_changes_tools_and_a_broken_one_nothing(start: Start) -> None:
    async with http_api(SIX) as api:
        running = await start(config({"api": api.backend(**OFTEN)}))
        assert (await running.caller.list("oxp")).ids == named(*"abcdef")
        good = api.document
        for broken in (b'{"openapi":"4.0.0"}', document({"/a": SIX["/a"]})):
            asked = len(api.fetched)
            api.document = broken
            await until(lambda asked=asked: len(api.fetched) >= asked + 2)  # type: ignore[misc]
            assert (await running.caller.list("oxp")).ids == named(*"abcdef")
            assert (await running.caller.call("oxp", "Api.f")).value["target"] == "/f"
        moved = {**SIX, "/moved/{id}": {"get": operation("a", parameter("id", "path"))}}
        del moved["/a"], moved["/f"]
        api.document = {**good, "paths": moved}
        await listed_until(running.caller, lambda listed: listed.ids == named(*"abcde"))
        assert (await running.caller.call("oxp", "Api.a", {"id": "7"})).value["target"] == "/moved/7"
        assert (await running.caller.call("oxp", "Api.f")).document["code"] == "tool_not_found"


async def test_openapi_08_a_document_from_a_file_is_read_again_when_it_changes(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"

    def write(*names: str) -> None:
        told = document({f"/{name}": {"get": operation(name)} for name in names})
        told["info"]["version"] = "2022-11-28"
        file.write_text(yaml.safe_dump(told).replace("'", ""))

    def ids(*names: str) -> list[str]:
        return sorted(f"Api.{name}@2022.11.28" for name in names)

    write("always", "still", "old")
    async with http_api({}) as api:
        running = await start(config({"api": api.backend(document=str(file), **OFTEN)}))
        assert (await running.caller.list("oxp")).ids == ids("always", "still", "old")
        write("always", "still", "new")
        await listed_until(running.caller, lambda listed: listed.ids == ids("always", "still", "new"))
        assert (await running.caller.call("oxp", "Api.new")).value["target"] == "/new"
        assert api.fetched == []
