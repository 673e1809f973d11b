"""An API on a real socket, its document, and the backend in front of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from gateway.core.jsontext import encode
from gateway.core.model import CallContext, Invocation, Listing
from gateway.protocols.openapi.backend import OpenApiBackend
from gateway.protocols.openapi.document.plan import Access, CallPlan, OperationTool, Parameter
from tests.streams import Request, accepting, http_reply, read_request
from tests.unit.protocols.openapi.document.documents import root
from tests.unit.upstream.admitting import admission, context_of, settings_of

DOCUMENT = "/openapi.json"
GET = CallPlan(method="GET", path="/things", is_safe=True, can_repeat=True)
OK = http_reply(200, {"ok": True})


class Api:
    """A server that answers as a test says; an empty answer hangs up. `requests` are all but those for the document."""

    def __init__(self, answer: Callable[[Request], bytes]) -> None:
        self.answer = answer
        self.document: bytes | Callable[[Request], bytes] = http_reply(404, b"")
        self.requests: list[Request] = []
        self.fetches: list[Request] = []
        self.url = ""

    @property
    def targets(self) -> Sequence[str]:
        return [request.target for request in self.requests]

    async def converse(self, reader: Any, writer: Any) -> None:
        while True:
            request = await read_request(reader)
            if request.target.startswith(DOCUMENT):
                self.fetches.append(request)
                reply = self.document if isinstance(self.document, bytes) else self.document(request)
            else:
                self.requests.append(request)
                reply = self.answer(request)
            if not reply:
                return
            writer.write(reply)


@asynccontextmanager
async def api(answer: Callable[[Request], bytes] = lambda request: OK) -> AsyncIterator[Api]:
    server = Api(answer)
    async with accepting(server.converse) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


@asynccontextmanager
async def facing(server: Api, base: str = "", **keys: Any) -> AsyncIterator[OpenApiBackend]:
    """The backend of an API whose document is there, too, unless the keys say where it is."""
    url = server.url + base
    settings = settings_of("openapi", url, **{"document": server.url + DOCUMENT, "toolkit": "Shop"} | keys)
    async with aclosing(OpenApiBackend("shop", settings, context_of(admission(url)))) as backend:
        yield backend


def tool_of(plan: CallPlan) -> OperationTool:
    return OperationTool(
        tool="Shop.act",
        version="1.0.0",
        name="Shop_act",
        description="",
        input_schema={"type": "object"},
        output_schema={},
        remote_id=f"{plan.method} {plan.path}",
        plan=plan,
    )


def calling(plan: CallPlan, arguments: Mapping[str, Any] | None = None, **more: Any) -> Invocation:
    asked: dict[str, Any] = {"call_id": "tg-1", "arguments": dict(arguments or {}), "timeout_s": 5.0} | more
    return Invocation(tool=tool_of(plan), **asked)


def lending(tokens: Mapping[str, str] | None = None, **secrets: str) -> CallContext:
    return CallContext(tokens=tokens or {}, secrets=secrets)


def with_access(plan: CallPlan, **access: Any) -> CallPlan:
    return replace(plan, access=Access(**access))


def parameter(name: str, where: Any, **more: Any) -> Parameter:
    styles = {"path": "simple", "header": "simple"}
    given: dict[str, Any] = {"argument": name, "style": styles.get(where, "form"), "explode": where not in styles}
    return Parameter(name=name, where=where, **given | more)


def text_of(*names: str) -> bytes:
    """A document whose operations have these names."""
    return encode(root({f"/{name}": {"get": {"operationId": name}} for name in names}))


def document_of(*names: str, **more: Any) -> bytes:
    """A reply with that."""
    return http_reply(200, text_of(*names), content_type="application/json", **more)


def names(listing: Listing) -> Sequence[str]:
    return [tool.tool.partition(".")[2] for tool in listing.tools]
