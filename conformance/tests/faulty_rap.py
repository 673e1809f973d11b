"""A small RAP server with one fault or none, for the tests of the checks.

Its faults are named by the numbers of the checks that they are for; a letter tells two of one check apart. What is
named by a word is unusual and no fault.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests import plainhttp
from tests.streams import Request, accepting, http_reply, read_request
from toolgate_conformance.servers.rap.common import NOWHERE

TOKEN = "kit"
WORK_S = 0.01  # a call takes that long
SLOW_S = 2.5  # what is to come at once, and does not
TEDIOUS_S = 0.4  # what takes its time, and may
IMPATIENT_S = 0.15  # after which a callback is thought lost
PATIENT_S = 0.8  # after which a call is given up whose callback is not answered
MAX_ATTEMPTS = 4
LARGE_BYTES = 64 * 1024
TRACE = "Traceback (most recent call last):"
DISPLAYED = [{"type": "diff", "content": {"path": "a", "patch": "+b"}}, {"type": "text", "content": "b"}]
PIXEL = {"type": "image", "data": "AAAA", "mediaType": "image/png"}
NO_ARGUMENTS = {"type": "object", "additionalProperties": False}
TOOLS = {
    "note": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "photo": NO_ARGUMENTS,
    "watch": NO_ARGUMENTS,
    "tick": NO_ARGUMENTS,
    "ask": NO_ARGUMENTS,
    "deploy": NO_ARGUMENTS,
}

Json = dict[str, Any]


class FaultyRap:
    """The tools: `note` and `photo` bring results, `watch` ends by itself and `tick` does not, two ask somebody."""

    def __init__(self, fault: str, token: str | None) -> None:
        self.fault = fault
        self.token = token
        self.port = 0
        self.client = plainhttp.async_client()
        self.calls: dict[str, asyncio.Task[None]] = {}
        self.bodies: dict[str, Json] = {}
        self.questions: dict[str, asyncio.Future[int]] = {}
        self.invocations = 0
        self.consented = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            status, body, headers = await self.answer(request)
            writer.write(http_reply(status, body, **headers))
            await writer.drain()

    async def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        path, status = request.target, 404
        if path == "/.well-known/rap-toolset":
            media = "text/plain" if self.fault == "2" else "application/json"
            return 404 if self.fault == "1" else 200, self.toolset(), {"content_type": media}
        if path == "/invoke":
            status = await self.invoke(request)
        elif path == "/cancel_tool_call":
            status = await self.cancel(request)
        elif path == "/close_thread" and self.fault != "60":
            status = self.close(request)
        elif path.startswith("/choice/"):
            status = self.choose(request)
        return status, TRACE.encode() if self.fault == "48" and status == 400 else b"", {}

    def toolset(self) -> Json:
        tools: list[Json] = [
            {"name": name, "description": "A tool of a test.", "inputSchema": schema, "annotations": {"readOnly": True}}
            for name, schema in TOOLS.items()
        ]
        found: Json = {"name": "Kit", "endpoint": f"{self.url}/invoke", "tools": tools}
        changes: Mapping[str, Json] = {
            "3": {"name": ""},
            "4": {"endpoint": "/invoke"},
            "5": {"tools": []},
            "6": {"tools": [*tools, tools[0]]},
            "7": {"tools": [*tools, tools[0] | {"name": "look around"}]},
            "8": {"tools": [*tools[1:], {**tools[0], "description": ""}]},
            "9": {"tools": [*tools[:-1], tools[-1] | {"inputSchema": {"type": 1}}]},
            "10": {"tools": [*tools[:-1], tools[-1] | {"inputSchema": {"type": "object"}}]},
            "11": {"tools": [*tools[:-1], tools[-1] | {"annotations": {"readOnly": "yes"}}]},
            "12": {"endpoint": f"http://localhost:{self.port}/invoke"},
            "undeclared": {
                "tools": [each | {"annotations": {"readOnly": True, "destructive": True}} for each in tools]
            },
        }
        return found | changes.get(self.fault, {})

    def is_known(self, request: Request) -> bool:
        return self.token is None or request.header("authorization") == f"Bearer {self.token}"

    # Invocations.

    async def invoke(self, request: Request) -> int:
        """The status of the acknowledgement."""
        if not self.is_known(request) and self.fault != "90":
            return 401
        if self.fault == "47" and len(request.body) > LARGE_BYTES:
            return 500
        try:
            call = json.loads(request.body)
        except (ValueError, RecursionError):
            return 500 if self.fault == "46" and b"[[[[" in request.body else 400
        if not isinstance(call, dict) or not all(
            isinstance(call.get(name), str) for name in ("id", "group_id", "callback_url")
        ):
            return 200 if self.fault == "45" and call == {} else 422
        return await self.acknowledge(call)

    async def acknowledge(self, call: Json) -> int:
        self.invocations += 1
        refused = {
            "23": call.get("thread_ancestors", "") is None,
            "24": "kit_member" in call,
            "44": call.get("arguments") == "kit",
        }
        if refused.get(self.fault, False):
            return 422
        self.bodies[call["id"]] = call
        self.calls[call["id"]] = task = asyncio.create_task(self.perform(call))
        if self.fault == "21" and self.invocations == 1:
            await asyncio.sleep(SLOW_S)
        if self.fault == "22" and call["operation"] == "note":
            await asyncio.wait({task})
        if self.fault == "22b" and call["operation"] == "note":
            is_done, _ = await asyncio.wait({task}, timeout=PATIENT_S)
            if not is_done:
                task.cancel()
                return 500
        return 202 if self.fault == "20" and call["operation"] == "photo" else 200

    async def perform(self, call: Json) -> None:
        wrong = self.wrong(call)
        if wrong is None:
            await asyncio.sleep(WORK_S)
            await getattr(self, f"run_{call['operation']}")(call)
            return
        is_dropped = {
            "40": call["operation"] == NOWHERE and call["arguments"] == {},
            "42": call["operation"] in TOOLS,
        }
        if is_dropped.get(self.fault, False):
            return
        is_silent = {"41": call["arguments"] == {} and call["operation"] == NOWHERE, "43": call["operation"] in TOOLS}
        text = wrong if is_silent.get(self.fault, False) else f"Error: {wrong}"
        await self.result(call, text=text + (TRACE if self.fault == "48b" else ""))

    def wrong(self, call: Json) -> str | None:
        """What is wrong with an invocation."""
        operation, arguments = call.get("operation"), call.get("arguments")
        if operation not in TOOLS:
            return "There is no such operation."
        if not isinstance(arguments, dict):
            return "The arguments are no object."
        if operation == "note" and not isinstance(arguments.get("text"), str):
            return "A text is missing."
        return None

    async def result(self, call: Json, **members: Any) -> None:
        await self.say(call, "tool_result", id=call["id"], call_id=call.get("call_id"), **members)

    async def say(self, call: Json, kind: str, **members: Any) -> None:
        """Delivers a message, with the faults that callbacks of `note` have."""
        message = {"type": kind, "group_id": call["group_id"], **members}
        if self.fault == "35" and kind == "tool_result":
            message["call_id"] = None
        await self.deliver(call, message)

    async def deliver(self, call: Json, message: Json) -> None:
        is_photo = call["operation"] == "photo"
        url = call["callback_url"]
        if self.fault == "proxied":
            url = url.replace("/kit/callback/", "/callback/")  # what a proxy before the receiver does
        if self.fault == "39" and is_photo:
            url = url.partition("?")[0]
        media = "text/plain" if self.fault == "31" and is_photo else "application/json"
        for attempt in range(MAX_ATTEMPTS):
            try:
                timeout = IMPATIENT_S if self.fault == "52" and attempt == 0 else None
                answer = await self.client.post(
                    url, content=json.dumps(message), headers={"content-type": media}, timeout=timeout
                )
            except httpx.TransportError:
                continue
            is_again = {"50": False, "51": answer.status_code >= 400}
            if not is_again.get(self.fault, answer.status_code >= 500):
                return
            await asyncio.sleep(WORK_S)

    # The tools.

    async def run_note(self, call: Json) -> None:
        own = call["id"]
        if self.fault == "70":
            crowd = [id_ for id_, task in self.calls.items() if not task.done() and id_ != own]
            call = call | {"id": crowd[0] if crowd else own}
        if self.fault == "updates":
            await self.say(call, "view_update", view_type="note", content={"state": "writing"})
        if self.fault == "slow":
            await asyncio.sleep(TEDIOUS_S)
        displayed: Any = DISPLAYED[::-1] if self.fault == "29" else DISPLAYED
        if self.fault == "36d":
            displayed = [{"type": "text", "content": 1}]
        await self.result(call, text=call["arguments"]["text"], display_as=displayed)

    async def run_photo(self, call: Json) -> None:
        changes: Mapping[str, Json] = {
            "33": {"id": "another"},
            "34": {"group_id": "another"},
            "36": {"content": [{"type": "text"}]},
            "36b": {"content": []},
            "36e": {"content": [{"type": "text", "text": "A photo"}, PIXEL | {"data": "???"}]},
            "38": {"content": [PIXEL]},
        }
        if self.fault == "30":
            return
        if self.fault == "32":
            await self.say(call, "progress", id=call["id"])
        members = {"id": call["id"], "content": [{"type": "text", "text": "A photo"}, PIXEL]}
        message = {"type": "tool_result", "group_id": call["group_id"]} | members | changes.get(self.fault, {})
        for _ in range(2 if self.fault == "37" else 1):
            await self.deliver(call, message)

    async def run_watch(self, call: Json) -> None:
        await self.result(call, text="Watching", subscription=self.fault != "66")
        for number in range(3 if self.fault == "64" else 2):
            await self.event(call, final=number == 1)

    async def run_tick(self, call: Json) -> None:
        await self.result(call, text="Ticking", subscription=True)
        while True:
            await self.event(call)
            await asyncio.sleep(WORK_S)

    async def event(self, call: Json, **members: Any) -> None:
        text: Any = 1 if self.fault == "36c" else "news"
        await self.say(call, "subscription_event", tool_call_id=call["id"], text=text, **members)

    async def run_ask(self, call: Json) -> None:
        self.questions[call["id"]] = selected = asyncio.get_running_loop().create_future()
        asked: Json = {"prompt": "Which?", "choices": ["this", "that"], "default": 1}
        asked |= {"response_url": f"{self.url}/choice/{call['id']}"}
        if self.fault == "81":
            asked["default"] = 2
        await self.say(call, "user_choice", id=call["id"], call_id=self.echoed(call), **asked)
        index = await selected
        if index in (0, 1):
            await self.result(call, text=asked["choices"][index])
        elif self.fault != "83":
            await self.result(call, text="Error: That is no choice.")

    async def run_deploy(self, call: Json) -> None:
        url = "http://login.example/consent" if self.fault == "80" else "https://login.example/consent"
        await self.say(call, "oauth", id=call["id"], call_id=self.echoed(call), auth_url=url)
        if self.fault != "84":
            await self.consented.wait()
            if self.fault == "asks":
                await self.run_ask(call)
            else:
                await self.result(call, text="Deployed")

    def echoed(self, call: Json) -> Any:
        return "another" if self.fault == "85" else call.get("call_id")

    # Notices, and answers to questions.

    def choose(self, request: Request) -> int:
        selected = request_document(request)["selected"]
        if self.fault == "82b" and selected in (0, 1):
            raise ConnectionResetError
        self.questions[request.target.rpartition("/")[2]].set_result(selected)
        return 202 if self.fault == "82" else 200

    async def cancel(self, request: Request) -> int:
        if not self.is_known(request) and self.fault != "91":
            return 401
        notice = request_document(request)
        id_ = notice.get("tool_call_id")
        if not isinstance(id_, str):
            return 500 if self.fault == "65" else 200
        if self.fault == "61" and id_ == "kit-unknown":
            return 400
        task = self.calls.get(id_)
        if task is None:
            return 200
        if self.fault == "63" and self.bodies[id_]["operation"] == "note":
            for _ in range(2):
                await self.result(self.bodies[id_], text="Cancelled")
        if self.fault != "64b":
            task.cancel()
        return 200

    def close(self, request: Request) -> int:
        if not self.is_known(request) and self.fault != "91":
            return 401
        return 400 if self.fault == "62" else 200


def request_document(request: Request) -> Json:
    """The body; an empty object for what is none."""
    found = json.loads(request.body)
    return found if isinstance(found, dict) else {}


@asynccontextmanager
async def faulty_rap(fault: str = "", token: str | None = TOKEN) -> AsyncIterator[FaultyRap]:
    """Runs the server on a free port."""
    server = FaultyRap(fault, token)
    async with server.client, accepting(server.converse) as port:
        server.port = port
        try:
            yield server
        finally:
            for task in server.calls.values():
                task.cancel()
            await asyncio.gather(*server.calls.values(), return_exceptions=True)
