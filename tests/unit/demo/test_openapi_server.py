from __future__ import annotations

from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate

from tests.support.terminal import connected

DAYS = "/v1/stations/bergen/days"


def test_its_document_is_valid_and_names_every_operation_that_there_is(openapi: httpx.Client) -> None:
    document = openapi.get("/openapi.json").json()
    validate(document)
    for template, path in document["paths"].items():
        for method in path.keys() - {"parameters"}:
            asked = openapi.request(method, "/v1" + template.replace("{station}", "nowhere"))
            assert asked.status_code in (200, 404)
            assert "application/" in asked.headers["content-type"]
            assert template == "/stations" or asked.json()["title"] == "No such station"


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["bergen", "fanaraken", "reykjavik", "tromso", "uppsala"]),
        ("country=SE&country=IS", ["reykjavik", "uppsala"]),
        ("country=SE,IS", []),
    ],
)
def test_stations_are_filtered_by_an_array_that_is_repeated(openapi: httpx.Client, query: str, ids: list[str]) -> None:
    assert [station["id"] for station in openapi.get(f"/v1/stations?{query}").json()] == ids


def test_days_have_the_measures_of_an_array_with_commas_and_are_the_same_each_time(openapi: httpx.Client) -> None:
    query = "from=2024-02-28&to=2024-03-01&measures=rain,wind"
    days = openapi.get(f"{DAYS}?{query}").json()
    assert [day["date"] for day in days] == ["2024-02-28", "2024-02-29", "2024-03-01"]
    assert {tuple(day) for day in days} == {("date", "rain", "wind")}
    assert openapi.get(f"{DAYS}?{query}").json() == days


REFUSED: list[tuple[str, int]] = [
    (DAYS, 400),
    (f"{DAYS}?from=2024-02-30", 400),
    (f"{DAYS}?from=2024-02-01&to=2024-01-01", 400),
    (f"{DAYS}?from=2024-01-01&to=2024-02-01", 400),
    (f"{DAYS}?from=2024-01-01&measures=rain&measures=wind,fog", 400),
    ("/v1/stations/atlantis", 404),
    ("/v1/stations/fanaraken/now", 503),
]


@pytest.mark.parametrize(("path", "status"), REFUSED)
def test_what_it_refuses_it_explains(openapi: httpx.Client, path: str, status: int) -> None:
    refused = openapi.get(path)
    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.status_code, refused.json()["status"]) == (status, status)
    assert refused.json()["detail"].endswith(".")
    assert refused.headers.get("retry-after") == ("120" if status == 503 else None)


def test_an_observation_is_added_and_listed(openapi: httpx.Client) -> None:
    path = "/v1/stations/uppsala/observations"
    added = openapi.post(path, json={"seen": "a halo", "observer": None})
    assert (added.status_code, added.headers["location"]) == (201, path)
    assert openapi.get(path).json() == [added.json()] == [{"id": 1, "seen": "a halo", "observer": None}]


@pytest.mark.parametrize("told", [{}, [], {"seen": ""}, {"seen": 1}, {"seen": "x" * 201}, {"seen": "x", "observer": 1}])
def test_what_is_no_observation_is_refused(openapi: httpx.Client, told: Any) -> None:
    assert openapi.post("/v1/stations/bergen/observations", json=told).status_code == 422


def test_with_a_token_everything_but_the_document_asks_for_it() -> None:
    with connected("gateway.demo.openapi_server", "--token", "t0k") as client:
        assert client.get("/openapi.json").status_code == 200
        refused = client.get("/v1/stations")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert client.get("/executions").json() == {}
        assert client.get("/v1/stations", headers={"Authorization": "Bearer t0k"}).status_code == 200
        assert client.get("/executions").json() == {"list_stations": 1}
