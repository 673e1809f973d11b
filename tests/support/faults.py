"""Faults on order: a test orders what a tool server does wrong next, and how often.

`POST /faults {"operation", "fault", "times", "seconds"}` orders one, `GET /faults` lists what is due, `DELETE /faults`
forgets all orders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


@dataclass
class Fault:
    """One order: how often it is still due, and for faults that take time, how long."""

    operation: str
    fault: str
    times: int = 1
    seconds: float = 1.0


class Faults:
    """The orders of one server."""

    def __init__(self) -> None:
        self._orders: list[Fault] = []

    def take(self, operation: str, among: Collection[str] | None = None) -> Fault | None:
        """The oldest order for `operation` that names one of these faults, which is now due once less."""
        for order in self._orders:
            if order.operation == operation and (among is None or order.fault in among):
                order.times -= 1
                if not order.times:
                    self._orders.remove(order)
                return order
        return None

    def route(self) -> Route:
        """Where faults are ordered."""

        async def control(request: Request) -> Response:
            if request.method == "POST":
                self._orders.append(Fault(**await request.json()))
            elif request.method == "DELETE":
                self._orders.clear()
            return JSONResponse({"due": [asdict(order) for order in self._orders]})

        return Route("/faults", control, methods=["GET", "POST", "DELETE"])


async def hang_up(request: Request) -> Response:
    """Breaks the connection off without an answer; what it returns is not sent.

    ASGI has no such message, but the `receive` of uvicorn is a method of the object that holds the transport.
    """
    connection: Any = request.receive
    connection.__self__.transport.abort()
    async with asyncio.timeout(1.0):
        while (await request.receive())["type"] != "http.disconnect":
            pass  # what was left of the body
    return Response()
