"""A request whose response goes wrong as ordered."""

from __future__ import annotations

from typing import Any

from tests.unit.demo.rcrt_caller import Caller, Listener

HI = {"message": "hi"}


def responses(listener: Listener, caller: Caller, request_id: str) -> list[Any]:
    """The events about the responses to a request, once a later event has come."""
    ids = {item["id"] for item in caller.find(request_id)}
    listener.about(caller.create("note.v1", {}).json()["id"])
    return [event for event in listener.events if event.get("breadcrumb_id") in ids]


def heard(caller: Caller, fault: str, count: int = 1) -> list[Any]:
    caller.order("echo", fault)
    with caller.listening() as listener:
        request_id = caller.request("echo", HI)
        caller.response(request_id, count)
        return responses(listener, caller, request_id)
