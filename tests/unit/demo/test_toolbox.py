from __future__ import annotations

import pytest

from gateway.demo.toolbox import Context, DemoTool, Json, JsonObject, NotRunError, Toolbox, Version


async def nothing(_arguments: JsonObject, _context: Context) -> Json:
    return None


def toolbox(*versions: Version) -> Toolbox:
    return Toolbox(DemoTool("Geo.Find", version, "Finds.", {"type": "object"}, None, nothing) for version in versions)


RESOLUTIONS = [
    ("Geo.Find", (10, 0, 0)),  # the numerically highest, though "9" sorts after "10"
    ("Geo.Find@9", (9, 0, 0)),  # x.0.0, though there is a higher 9.x.y
    ("Geo.Find@9.1.0", (9, 1, 0)),
    ("Geo.Find@09.1.0", (9, 1, 0)),  # versions are integers
]


@pytest.mark.parametrize(("tool_id", "version"), RESOLUTIONS)
def test_a_version_resolves_by_the_three_rules(tool_id: str, version: Version) -> None:
    assert toolbox((9, 1, 0), (10, 0, 0), (9, 0, 0)).resolve(tool_id).version == version


UNRESOLVABLE = [
    *("Geo.Find@8", "Geo.Find@10.1.0", "Geo.Find@9.1", "Geo.Find@latest", "Geo.Find@", "Geo.Find@v9"),
    *(
        "Geo.Find@9.0.0-rc1",
        "Geo.Find@9@9",
        "Geo.Find@9\n",
        "Geo.Find@" + "9" * 200,
        "geo.find",
        "Geo_Find",
        "Geo.",
        "",
    ),
    "Geo.Find@\u0669",  # the Arabic digit nine
]


@pytest.mark.parametrize("tool_id", UNRESOLVABLE)
def test_an_id_that_names_no_version_of_a_tool_is_refused(tool_id: str) -> None:
    with pytest.raises(NotRunError) as caught:
        toolbox((9, 0, 0), (9, 1, 0), (10, 0, 0)).resolve(tool_id)
    assert caught.value.status == 400
