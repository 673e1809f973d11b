"""Real documents before Prism, which answers by a document and refuses requests that contradict it.

The arguments are made of the input schemas that callers see. Every acceptance has a refusal beside it, without which it
would show nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import pytest

from tests.interop.openapi.calls import SURFACES, Caller, backend, gateway
from tests.interop.openapi.programs import BLOCKFROST, GITHUB, README, Prism, prisms
from tests.interop.openapi.values import PLAIN, Maker

STYLES, TRAINS = README / "3.0/json/parameters-style.json", README / "3.1/json/train-travel.json"
DOCUMENTS = {"github": GITHUB, "blockfrost": BLOCKFROST, "styles": STYLES, "trains": TRAINS}
SAMPLE = 200  # operations of GitHub's
SEED = 61
# Operations whose requests do not come through although they are right, and why.
FORMS = "it refuses the characters of an object in a form, which is JSON there (OpenAPI 3.0, Special Considerations)"
KNOWN = {
    "Github.repos_cancel_pages_deployment": "it takes a number in a path for a text, too, so that both branches match",
    "Github.migrations_get_archive_for_authenticated_user": "the document has no answer but a redirection",
    "Styles.formData_form_nonExploded": FORMS,
    "Styles.formData_spaceDelimited_nonExploded": FORMS,
    "Styles.formData_standard": FORMS,
    "Styles.form_data_form_exploded": FORMS,
    "Styles.form_data_pipeDelimited_nonExploded": FORMS,
}
# Commas in paths, and objects in queries with the delimiters of lists, end its process; so these are not sent. Headers
# that are left out do, too, so everything is sent that may be.
FATAL = {
    *("Styles.paths_label_nonExploded", "Styles.paths_matrix_nonExploded", "Styles.paths_simple_nonExploded"),
    *("Styles.paths_simple_exploded", "Styles.paths_standard"),
    *("Styles.query_pipeDelimited_nonExploded", "Styles.query_spaceDelimited_nonExploded"),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Prism]]:
    with prisms(list(DOCUMENTS.values()), tmp_path_factory.mktemp("prism")) as found:
        yield dict(zip(DOCUMENTS, found, strict=True))


@pytest.fixture(scope="module")
async def caller(anyio_backend: object, running: dict[str, Prism]) -> AsyncIterator[Caller]:
    backends = {
        name: backend(prism.url, DOCUMENTS[name], toolkit=name.title(), breaker={"failures": 0}, base_path="/")
        for name, prism in running.items()
    }
    backends["trains"]["auth"] = {"bearer": "a-token"}
    backends["blockfrost"]["auth"] = {"api_key": {"in": "header", "name": "project_id", "value": "a-project"}}
    backends["unknown"] = {**backends["trains"], "toolkit": "Unknown"}
    del backends["unknown"]["auth"]
    async with gateway(backends) as calling:
        yield calling


@pytest.fixture(scope="module")
def tools(caller: Caller) -> dict[str, Any]:
    return caller.tools()


def refused(caller: Caller, tools: dict[str, Any], names: set[str], maker: Maker | None = None) -> dict[str, str]:
    """Why calls with arguments that were made did not come through, by tool."""
    maker, found = maker or Maker(SEED), dict[str, str]()
    for name in sorted(names - FATAL):
        arguments = maker.arguments(tools[name]["input_schema"])
        if arguments is None:
            found[name] = "no arguments could be made"
            continue
        outcome = caller.call(name, arguments)
        if not outcome.ok:
            found[name] = f"{outcome.message} {outcome.parameters or ''} {json.dumps(arguments)}"
    return found


def expected(names: set[str]) -> set[str]:
    return {name for name in KNOWN if name in names}


def of(toolkit: str, tools: dict[str, Any]) -> set[str]:
    return {name for name in tools if name.startswith(f"{toolkit}.")}


def test_openapi_61_prism_takes_what_is_made_of_githubs_document(caller: Caller, tools: dict[str, Any]) -> None:
    every = of("Github", tools)
    names = {*Random(SEED).sample(sorted(every), SAMPLE), *expected(every)}
    found = refused(caller, tools, names)
    assert found.keys() == expected(names), found


def test_openapi_59_prism_takes_the_styles_of_a_document_of_others(caller: Caller, tools: dict[str, Any]) -> None:
    names = of("Styles", tools)
    assert len(names) > 20
    found = refused(caller, tools, names, Maker(SEED, PLAIN, share=1))
    assert found.keys() == expected(names), found


@pytest.mark.parametrize("toolkit", ["Blockfrost", "Trains"])
def test_prism_takes_every_operation_of_a_document_with_our_credential(
    caller: Caller, tools: dict[str, Any], toolkit: str
) -> None:
    names = of(toolkit, tools)
    assert len(names) >= 7
    found = refused(caller, tools, names)
    assert found.keys() == expected(names), found


def test_prism_refuses_what_it_should(caller: Caller, tools: dict[str, Any]) -> None:
    names = of("Unknown", tools)
    found = refused(caller, tools, names)  # without a credential
    assert found.keys() == names
    assert all("401" in why or "unavailable" in why for why in found.values()), found
    # What is wrong is found before it is sent, by the same document.
    wrong = caller.call("Github.issues_list_for_repo", {"owner": "a", "repo": "b", "state": "bogus"})
    assert wrong.refused
    assert {*(wrong.parameters or ())} == {"state"}


@pytest.mark.parametrize("surface", SURFACES)
def test_it_answers_by_every_surface(caller: Caller, surface: str) -> None:
    outcome = caller.call("Github.issues_get", {"owner": "a", "repo": "b", "issue_number": 7}, surface)
    assert outcome.ok, outcome
    assert outcome.value, outcome
    assert caller.call("Github.meta_get_zen", {}, surface).value == "Responsive is better than fast"
    deleted = caller.call("Github.repos_delete", {"owner": "a", "repo": "b"}, surface)
    assert deleted.ok, deleted
