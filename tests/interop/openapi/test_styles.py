"""Parameters in every style, judged by Prism and by openapi-core: what is right is taken, what is wrong is refused.

Where a judge is mistaken, the case stands below with what it does instead. The right form of each is in the tables of
the specification (OpenAPI 3.1, Style Values), to which unit tests hold every byte.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.interop.openapi.calls import Caller, backend, gateway
from tests.interop.openapi.programs import Prism, api, prisms
from tests.interop.openapi.styles import CASES, Case, document

PRISM, CORE = "prism", "core"
TOOLKITS = {PRISM: "Prism", CORE: "Core"}
# How judges err, by case: they die of what is right, refuse it, or take what is wrong.
DIES, REFUSES, TAKES = "dies", "refuses", "takes"
COOKIES = ("integer", "boolean", "text", "array", "object")
KNOWN: dict[str, dict[str, str]] = {
    PRISM: {
        # A comma in a path or a query, but for plain lists in queries, ends its process.
        **dict.fromkeys(("path_simple_array", "path_simple_object", "path_label_array", "path_label_object"), DIES),
        **dict.fromkeys(("path_simple_exploded_array", "path_simple_exploded_object"), DIES),
        **dict.fromkeys(("path_matrix_array", "path_matrix_object"), DIES),
        **dict.fromkeys(("query_spaceDelimited_object", "query_pipeDelimited_object"), DIES),
        "path_label_exploded_object": REFUSES,  # wants `r=1%2Cg=2`
        "query_spaceDelimited_array": REFUSES,  # wants `1%25202`
        # It never looks at cookies, and at parameters that are JSON.
        **dict.fromkeys((f"cookie_form_{kind}" for kind in COOKIES), TAKES),
        **dict.fromkeys((f"{where}_json_object" for where in ("path", "query", "header", "cookie")), TAKES),
    },
    CORE: {
        # It knows neither label nor matrix.
        **{case.id: REFUSES for case in CASES if case.style in ("label", "matrix")},
        "query_form_exploded_object": REFUSES,
        "query_spaceDelimited_array": REFUSES,  # wants a space, and gets one only if it is encoded twice
        "query_spaceDelimited_object": REFUSES,
        # What cookies have to encode is not decoded.
        "cookie_form_text": REFUSES,
        "cookie_json_object": REFUSES,
    },
}
# Nobody here can judge these; unit tests hold them to the tables of the specification.
UNJUDGED = {
    *("path_label_array", "path_label_object", "path_label_exploded_object", "path_matrix_array", "path_matrix_object"),
    *("query_spaceDelimited_array", "query_spaceDelimited_object", "cookie_json_object", "cookie_form_text"),
}
ALIVE = [(judge, case) for judge in TOOLKITS for case in CASES if KNOWN[judge].get(case.id) != DIES]


@pytest.fixture(scope="module")
def prism(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prism]:
    folder = tmp_path_factory.mktemp("prism")
    strict = folder / "strict.json"
    strict.write_text(json.dumps(document(strict=True)))
    with prisms([strict], folder) as [running]:
        yield running


@pytest.fixture(scope="module")
async def caller(
    anyio_backend: object, prism: Prism, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Caller]:
    folder = tmp_path_factory.mktemp("core")
    strict, loose = folder / "strict.json", folder / "loose.json"
    strict.write_text(json.dumps(document(strict=True)))
    loose.write_text(json.dumps(document(strict=False)))
    with api("judge.py", str(strict)) as core:
        judges = {PRISM: prism.url, CORE: core}
        backends = {
            name: backend(url, loose, toolkit=TOOLKITS[name], breaker={"failures": 0}) for name, url in judges.items()
        }
        async with gateway(backends) as calling:
            yield calling


def takes(caller: Caller, judge: str, case: Case, value: object) -> bool:
    """Whether a judge takes a value; one that it has understood is the value that was sent."""
    outcome = caller.call(f"{TOOLKITS[judge]}.{case.id}", {"p": value})
    assert not outcome.refused, outcome
    assert outcome.ok or outcome.code == "tool_error", outcome
    if outcome.ok and judge == CORE:
        assert outcome.value["p"] == value
    return outcome.ok


@pytest.mark.parametrize(("judge", "case"), ALIVE, ids=lambda each: getattr(each, "id", each))
def test_openapi_60_judges_take_what_is_right_and_refuse_what_is_wrong(caller: Caller, judge: str, case: Case) -> None:
    does = takes(caller, judge, case, case.right), takes(caller, judge, case, case.wrong)
    errs = KNOWN[judge].get(case.id)
    assert does == {None: (True, False), REFUSES: (False, False), TAKES: (True, True)}[errs]


def test_every_case_is_judged_by_somebody_or_is_known_not_to_be() -> None:
    unjudged = {case.id for case in CASES if all(case.id in known for known in KNOWN.values())}
    assert unjudged == UNJUDGED
