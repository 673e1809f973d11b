"""Faults on order: a test tells a demonstration server what to do wrong next, and how often.

`POST /faults {"operation", "fault", "times", "seconds"}` orders one, `GET /faults` says what there is, `DELETE /faults`
forgets all orders. No specification knows them; they are open to this machine only.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema_rs import Draft202012Validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.service import Site, decode, read_body
from gateway.demo.toolbox import Json, JsonObject, RefusedError, object_schema

HELP_WIDTH = 100
MAX_ORDERS = 100  # far more than one test places
MAX_TIMES = 10_000
MAX_SECONDS = 60.0  # longer than any deadline worth missing
LOST_WAIT_S = 1.0  # for the server to notice a connection that we broke ourselves: one turn of its loop

ORDER = Draft202012Validator(
    object_schema(
        {
            "operation": {"type": "string"},
            "fault": {"type": "string"},
            "times": {"type": "integer", "minimum": 1, "maximum": MAX_TIMES},
            "seconds": {"type": "number", "minimum": 0, "maximum": MAX_SECONDS},
        },
        "operation",
        "fault",
    )
)


@dataclass
class Fault:
    """One order: how often it is still due, and for faults that take time, how long."""

    operation: str
    name: str
    left: int
    seconds: float


class Faults:
    """The orders of one server; `known` has the names of the faults by what they can happen to."""

    def __init__(self, known: Mapping[str, Collection[str]]) -> None:
        self._known = known
        self._orders: list[Fault] = []

    def order(self, document: Json) -> None:
        """Raises: RefusedError."""
        for error in ORDER.iter_errors(document):
            raise RefusedError("The order is invalid", developer_message=error.message[:300])
        operation, name = document["operation"], document["fault"]
        if name not in self._known.get(operation, ()):
            raise RefusedError("There is no such fault", developer_message="GET /faults lists them")
        if len(self._orders) >= MAX_ORDERS:
            raise RefusedError(f"There is no room for more than {MAX_ORDERS} orders")
        self._orders.append(Fault(operation, name, int(document.get("times", 1)), float(document.get("seconds", 1.0))))

    def take(self, operation: str, among: Collection[str]) -> Fault | None:
        """The oldest order for `operation` that names one of these faults, which is now due once less."""
        for fault in self._orders:
            if fault.operation == operation and fault.name in among:
                fault.left -= 1
                if not fault.left:
                    self._orders.remove(fault)
                return fault
        return None

    def clear(self) -> None:
        self._orders.clear()

    def describe(self) -> JsonObject:
        due = [{"operation": fault.operation, "fault": fault.name, "times": fault.left} for fault in self._orders]
        return {"known": {operation: sorted(names) for operation, names in self._known.items()}, "due": due}


def epilog(faults: Mapping[str, Collection[str]]) -> str:
    """What `--help` says of faults, by what they happen to."""
    intro = (
        'What it does wrong on order, by POST /faults {"operation": NAME, "fault": NAME, "times": 1, "seconds": 1}; '
        "GET /faults lists what there is and what is due, DELETE /faults forgets all orders."
    )
    paragraphs = [intro, *(f"{operation}: {', '.join(sorted(names))}" for operation, names in faults.items())]
    return "\n\n".join(
        textwrap.fill(text, HELP_WIDTH, subsequent_indent="  " if text is not intro else "") for text in paragraphs
    )


def admit_control(site: Site, request: Request) -> None:
    """Lets in only programs on this machine, with the bearer token if there is one. Raises RefusedError."""
    site.admit(request)
    if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
        raise RefusedError("This is open to the server's own machine only", status=403)


def routes(site: Site, faults: Faults) -> list[Route]:
    """Where faults are ordered."""

    async def control(request: Request) -> Response:
        try:
            admit_control(site, request)
            if request.method == "POST":
                faults.order(decode(await read_body(request)))
            elif request.method == "DELETE":
                faults.clear()
            return JSONResponse(faults.describe())
        except RefusedError as refused:
            return JSONResponse(refused.body, refused.status, headers=refused.headers)

    return [Route("/faults", control, methods=["GET", "POST", "DELETE"])]


async def hang_up(request: Request) -> Response:
    """Breaks the connection off without a word; the answer it returns reaches nobody.

    ASGI has no such message, but the `receive` of uvicorn is a method of the object that holds the transport.
    """
    connection: Any = request.receive
    connection.__self__.transport.abort()
    async with asyncio.timeout(LOST_WAIT_S):
        while (await request.receive())["type"] != "http.disconnect":
            pass  # what was left of the body
    return Response()


async def pause(site: Site, seconds: float) -> None:
    """Waits, but not while the server is being stopped."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(site.stopping.wait(), seconds)
