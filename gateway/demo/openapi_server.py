"""A demonstration HTTP API, which knows nothing of tools: `python -m gateway.demo.openapi_server`.

An archive of the weather, which is made up, and the same whenever it is asked for. The OpenAPI document is at
`/openapi.json`, the operations are below `/v1`, and what they refuse they explain with problem details (RFC 9457).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from itertools import count
from math import cos, tau
from zlib import crc32

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.service import Options, Site, create_app, decode, main, read_body
from gateway.demo.toolbox import Json, JsonObject, NotRunError

FIRST, LAST = date(2020, 1, 1), date(2024, 12, 31)
MAX_DAYS = 31
MAX_OBSERVATIONS = 50  # per station; older ones are forgotten
MEASURES = ("temperature", "rain", "wind")
STATIONS: dict[str, JsonObject] = {
    "bergen": {"country": "NO", "altitude": 12},
    "fanaraken": {"country": "NO", "altitude": 2062},
    "reykjavik": {"country": "IS", "altitude": 52},
    "tromso": {"country": "NO", "altitude": 100},
    "uppsala": {"country": "SE", "altitude": 21},
}
SNOWED_IN = "fanaraken"
DIG_OUT_S = 120


class ProblemError(Exception):
    """A request that is refused, with what to tell about it."""

    def __init__(self, status: int, title: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(self) -> Response:
        return JSONResponse(self.body, self.status, self.headers, media_type="application/problem+json")


class Archive:
    """The operations, by the `operationId` that the document gives them."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._observations: dict[str, deque[JsonObject]] = {name: deque(maxlen=MAX_OBSERVATIONS) for name in STATIONS}

    async def list_stations(self, request: Request) -> Response:
        countries = request.query_params.getlist("country")
        found = [station(name) for name in STATIONS]
        return JSONResponse([one for one in found if not countries or one["country"] in countries])

    async def read_station(self, request: Request) -> Response:
        return JSONResponse(station(named(request)))

    async def read_days(self, request: Request) -> Response:
        name = named(request)
        first = day_of(request, "from", "")
        last = day_of(request, "to", first.isoformat())
        if not FIRST <= first <= last <= LAST or (last - first).days >= MAX_DAYS:
            detail = f"Ask for at most {MAX_DAYS} days, from {FIRST} to {LAST}."
            raise ProblemError(400, "These days cannot be read", detail)
        asked = request.query_params.get("measures", "")
        measures = asked.split(",") if asked else MEASURES
        if unknown := [measure for measure in measures if measure not in MEASURES]:
            raise ProblemError(400, "Unknown measure", f"{unknown[0][:40]!r} is none of {', '.join(MEASURES)}.")
        days = [first + timedelta(number) for number in range((last - first).days + 1)]
        return JSONResponse([weather(name, day, measures) for day in days])

    async def read_now(self, request: Request) -> Response:
        name = named(request)
        if name == SNOWED_IN:
            detail = "Somebody is on the way with a shovel."
            raise ProblemError(503, "The station is snowed in", detail, Retry_After=str(DIG_OUT_S))
        return JSONResponse(weather(name, datetime.now(UTC).date(), MEASURES))

    async def list_observations(self, request: Request) -> Response:
        return JSONResponse(list(reversed(self._observations[named(request)])))

    async def add_observation(self, request: Request) -> Response:
        name = named(request)
        told = decode(await read_body(request))
        if not isinstance(told, dict) or not is_text(told.get("seen"), 200):
            raise ProblemError(422, "This is no observation", "'seen' must be a text of 1 to 200 characters.")
        observer = told.get("observer")
        if observer is not None and not is_text(observer, 100):
            raise ProblemError(422, "This is no observation", "'observer' must be a text of 1 to 100 characters.")
        added = {"id": next(self._ids), "seen": told["seen"], "observer": observer}
        self._observations[name].append(added)
        where = {"Location": f"/v1/stations/{name}/observations"}
        return JSONResponse(added, 201, where)


def is_text(value: Json, length: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= length


def named(request: Request) -> str:
    """The station that the path names. Raises ProblemError."""
    name: str = request.path_params["station"]
    if name not in STATIONS:
        raise ProblemError(404, "No such station", f"The archive has {', '.join(STATIONS)}.")
    return name


def station(name: str) -> JsonObject:
    return {"id": name, **STATIONS[name]}


def day_of(request: Request, parameter: str, default: str) -> date:
    """A day of the query. Raises ProblemError."""
    try:
        return date.fromisoformat(request.query_params.get(parameter, default))
    except ValueError:
        raise ProblemError(400, "This is no day", f"'{parameter}' must be a date such as 2024-02-29.") from None


def weather(name: str, day: date, measures: tuple[str, ...] | list[str]) -> JsonObject:
    """The weather of a day: colder in winter and on mountains, and otherwise as the digits fall."""
    chance = crc32(f"{name} {day}".encode()) % 100
    season = cos(tau * (day.timetuple().tm_yday - 200) / 365.25)
    temperature = round(8 + 9 * season - STATIONS[name]["altitude"] / 150 + chance / 20, 1)
    rain = None if temperature < -10 else max(0, chance - 60) / 4
    measured = {"temperature": temperature, "rain": rain, "wind": 2 + chance % 17}
    return {"date": day.isoformat(), **{measure: measured[measure] for measure in measures}}


Endpoint = Callable[[Request], Awaitable[Response]]


def build(site: Site, _options: Options) -> Starlette:
    archive = Archive()
    document = (files("gateway.demo") / "weather.json").read_bytes()
    executions: dict[str, int] = {}

    async def describe(_request: Request) -> Response:
        return Response(document, media_type="application/json")

    def guarded(endpoint: Endpoint) -> Endpoint:
        """Counts what is asked for by those who may, and explains what is refused."""

        async def answer(request: Request) -> Response:
            try:
                site.admit(request)
                executions[endpoint.__name__] = executions.get(endpoint.__name__, 0) + 1
                return await endpoint(request)
            except ProblemError as problem:
                return problem.answer()
            except NotRunError as refused:
                return ProblemError(refused.status, "Refused", str(refused), **refused.headers).answer()

        return answer

    def route(path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        return Route(f"/v1/stations{path}", guarded(endpoint), methods=[method])

    routes = [
        Route("/openapi.json", describe),
        route("", archive.list_stations),
        route("/{station}", archive.read_station),
        route("/{station}/days", archive.read_days),
        route("/{station}/now", archive.read_now),
        route("/{station}/observations", archive.list_observations),
        route("/{station}/observations", archive.add_observation, "POST"),
    ]
    return create_app(routes, lambda: executions)


if __name__ == "__main__":
    main(build, "A demonstration HTTP API with an OpenAPI document.", default_port=9106)
