"""Plans and requests for tests, with as little said as they need."""

from __future__ import annotations

import email.policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.wire import WireRequest
from gateway.protocols.openapi.document.plan import BodyPlan, CallPlan, Parameter, Style, Where
from gateway.protocols.openapi.document.requests import request_of

DEFAULTS: dict[Where, tuple[Style, bool]] = {
    "path": ("simple", False),
    "query": ("form", True),
    "querystring": ("form", True),
    "header": ("simple", False),
    "cookie": ("form", True),
}


def parameter(where: Where, name: str = "color", style: Style | None = None, **more: Any) -> Parameter:
    default, explode = DEFAULTS[where]
    settings: dict[str, Any] = {"argument": name, "explode": explode if style is None else style == "form"}
    return Parameter(name=name, where=where, style=style or default, **settings | more)


def plan_of(*parameters: Parameter, path: str = "", method: str = "GET", **more: Any) -> CallPlan:
    """A plan whose path has a segment for each parameter in the path, unless it is given."""
    segments = "".join(f"/{{{one.name}}}" for one in parameters if one.where == "path")
    return CallPlan(method=method, path=path or f"/things{segments}", parameters=parameters, **more)


def send(plan: CallPlan, arguments: Any) -> WireRequest:
    return request_of(plan, arguments, "call-1")


def sent_as(one: Parameter, value: Any) -> str | None:
    """What stands on the wire for a value: a segment, a query, a header or a cookie; None if nothing does."""
    request = send(plan_of(one), {one.argument: value})
    if one.where == "path":
        return request.path.removeprefix("/things/")
    if one.where in ("query", "querystring"):
        path, _, query = request.path.partition("?")
        assert path == "/things"
        return query or None
    name = "cookie" if one.where == "cookie" else one.name.lower()
    return header(request, name)


def header(request: WireRequest, name: str) -> str | None:
    found = [text.decode("ascii") for key, text in request.headers if key == name.encode()]
    assert len(found) <= 1
    return found[0] if found else None


def refusal(plan: CallPlan, arguments: Any) -> dict[str, str]:
    """What is wrong with arguments, by argument."""
    with pytest.raises(GatewayError) as caught:
        send(plan, arguments)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
    assert caught.value.parameters
    return dict(caught.value.parameters)


def body_plan(kind: Any, media_type: str, **more: Any) -> CallPlan:
    return plan_of(method="POST", body=BodyPlan(kind=kind, media_type=media_type, **more))


def parts_of(request: WireRequest) -> list[tuple[Any, ...]]:
    """Name, type, file name and content of each part, as the standard library reads them."""
    head = f"Content-Type: {header(request, 'content-type')}\r\n\r\n".encode()
    message = BytesParser(EmailMessage, policy=email.policy.HTTP).parsebytes(head + request.body)
    assert not message.defects
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_content_type(),
            part.get_filename(),
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()
    ]
