"""Arguments that would have the gateway ask for another path, or say more than the operation they are for."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.jsontext import encode
from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.support.httpapi import STRING, Api, http_api, operation, parameter

pytestmark = pytest.mark.anyio


async def refused_or_sent(caller: Caller, api: Api, tool: str, arguments: Any) -> str | None:
    """The target of the one request that a call made; None if it was refused before."""
    before = len(api.calls)
    answer = await caller.call("oxp", f"Api.{tool}", arguments)
    if answer.status == 200:
        assert answer.result["success"] is True, answer.body
        assert len(api.calls) == before + 1
        return api.last.target
    assert answer.document["code"] == "invalid_arguments", answer.body
    assert len(api.calls) == before
    return None


# 38: every way to climb out of a path that anybody is known to have tried.
CLIMBS = [
    *("..", ".", "../admin", "..\\admin", "a/../../admin", "/admin", "//admin", "a/b", "\\admin"),
    *(
        "%2e%2e",
        "%2E%2E/admin",
        "%252e%252e%252fadmin",
        ".%2e/admin",
        "%2e.",
        "..%2fadmin",
        "..%5cadmin",
        "..%c0%afadmin",
    ),
    *(
        "..;/admin",
        "..;",
        ".;x",
        "\x00",
        "a\x00b",
        "a\r\nX: 1",
        "a\tb",
        "",
        "\uff0e\uff0e/admin",
        "..\u2215admin",
        "%25" * 12 + "2e",
    ),
    *(
        "a?admin=1",
        "a#admin",
        "a;b=c",
        "a b",
        "a&b=c",
        "@admin",
        "http://admin.example/",
        "a%2fb",
        "%2f",
        "é",
        "💣",
        "\ud7ff",
    ),
]
TEMPLATES = {
    "plain": "/v1/users/{x}/notes",
    "last": "/v1/files/{x}",
    "within": "/v1/reports/{x}.pdf",
    "twice": "/v1/{x}/of/{x}",
}
STYLES: dict[str, dict[str, Any]] = {
    "label": {"style": "label"},
    "matrix": {"style": "matrix"},
    "list": {"schema": {"type": "array", "items": STRING}},
    "exploded": {"schema": {"type": "object", "additionalProperties": STRING}, "explode": True},
}


async def test_openapi_38_no_value_changes_which_path_is_asked_for(start: Start) -> None:
    paths = {path: {"get": operation(name, parameter("x", "path"))} for name, path in TEMPLATES.items()}
    for name, members in STYLES.items():
        paths[f"/v1/{name}/{{x}}/end"] = {"get": operation(name, parameter("x", "path", **members))}
    async with http_api(paths) as api:
        caller = (await start(config({"api": api.backend()}))).caller
        tools = (*TEMPLATES, *STYLES)
        for number, text in enumerate(CLIMBS):
            for tool in (tools[number % len(tools)], tools[(number + 3) % len(tools)]):
                value: Any = {"list": [text, "z"], "exploded": {"k": text}}.get(tool, text)
                target = await refused_or_sent(caller, api, tool, {"x": value})
                if target is None:
                    continue
                template = TEMPLATES.get(tool, f"/v1/{tool}/{{x}}/end")
                head, tail = template.partition("{x}")[0], template.rpartition("{x}")[2]
                assert target.startswith(head), (tool, text, target)
                assert target.endswith(tail), (tool, text, target)
                assert target.count("/") == template.count("/"), (tool, text, target)
                assert not set(target) & set("?#\\ \r\n\x00"), (tool, text, target)
                segments = [segment.partition(";")[0] for segment in target.lower().replace("%2e", ".").split("/")]
                assert not {".", ".."} & set(segments), (tool, text, target)
        for text in ("..", "../admin", "%2e%2e", "%252e%252e%252fadmin", "a/b", "\x00", ""):
            assert await refused_or_sent(caller, api, "plain", {"x": text}) is None, text
        for text in ("a b", "é", "a?b", "a#b", "file.txt", "..."):  # these are names like any other
            assert await refused_or_sent(caller, api, "last", {"x": text}) is not None, text


BODIES = {"json": "application/json", "lines": "application/x-ndjson"}


async def test_openapi_37_a_body_of_very_many_values_goes_on_as_text_or_is_refused_by_name(start: Start) -> None:
    numbers = {"type": "array", "items": {"type": "integer"}}
    paths: Any = {
        f"/{name}/{{x}}": {
            "post": operation(name, parameter("x", "path"), requestBody={"content": {media: {"schema": numbers}}})
        }
        for name, media in BODIES.items()
    }
    wide, few = list(range(40_000)), [1, 2]
    async with http_api(paths) as api:
        caller = (await start(config({"api": api.backend(operations={"methods": ["all"]})}))).caller
        assert await refused_or_sent(caller, api, "json", {"x": "a", "body": wide}) == "/json/a"
        assert api.last.body == encode(wide)
        assert await refused_or_sent(caller, api, "lines", {"x": "a", "body": few}) == "/lines/a"
        assert api.last.body == b"1\n2\n"
        for tool, arguments in (("lines", {"x": "a", "body": wide}), ("json", {"x": "..", "body": wide})):
            assert await refused_or_sent(caller, api, tool, arguments) is None
        assert await refused_or_sent(caller, api, "json", {"x": "a", "body": [*wide, "x"]}) is None
