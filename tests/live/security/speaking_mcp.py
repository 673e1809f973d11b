"""MCP on both sides of the gateway, with a canary wherever a caller or a server can say something."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.live.security.entrusted import Canaries
from tests.protocols.mcp.server_double import Script, Talk, event
from tests.support.toolserver import ToolServer

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol"
USUAL = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def hostile_server(canaries: Canaries) -> Script:
    """A tool that does what it is told, of everything that an MCP server can do."""

    async def serve(talk: Talk) -> None:
        params = talk.message["params"]
        match params["arguments"].get("do"):
            case "answers":
                await talk.answer({"content": [{"type": "text", "text": canaries["studio value"]}]})
            case "fails":
                await talk.answer({"content": [{"type": "text", "text": canaries["studio failure"]}], "isError": True})
            case "errs":
                await talk.fail(-32603, canaries["studio error"], data=canaries["studio data"])
            case "asks":
                url = f"https://door.example/{canaries['studio url']}"
                asked = {"mode": "url", "message": canaries["studio question"], "url": url}
                elicitations = [{**asked, "elicitationId": canaries["studio elicitation"]}]
                await talk.fail(-32042, canaries["studio need"], elicitations=elicitations)
            case "crashes":
                await talk.fail(-32000, canaries["studio crash"], 500)
            case _:
                told = {"progressToken": params["_meta"].get("progressToken"), "progress": 1}
                told["message"] = canaries["studio progress"]
                notified = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
                logged = {"method": "notifications/message", "params": {"data": canaries["studio log"]}}
                await talk.stream(event(notified), event(logged), event(canaries["studio babble"]))

    return serve


async def modern(
    http: httpx.AsyncClient, canaries: Canaries, method: str, params: Any, *, capabilities: Any = None
) -> httpx.Response:
    """A modern request that says more of itself than it must."""
    about = {
        f"{PREFIX}/protocolVersion": MODERN,
        f"{PREFIX}/clientCapabilities": capabilities or {},
        f"{PREFIX}/clientInfo": {"name": canaries["client name"], "version": canaries["client version"]},
        "progressToken": canaries["progress token"],
        "baggage": canaries["baggage"],
        **params.get("_meta", {}),
    }
    headers = {**USUAL, "MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Param-X": canaries["stray param"]}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": canaries["json-rpc id"], "method": method, "params": {**params, "_meta": about}}
    return await http.post("/mcp", json=body, headers=headers)


async def mcp_session(http: httpx.AsyncClient, lab: ToolServer, canaries: Canaries) -> list[httpx.Response]:
    """Everything that a caller of MCP can say, and what goes wrong with it."""
    context = {
        "authorization": [{"id": "door", "token": canaries["lent token"]}],
        "secrets": [{"id": "KEY", "value": canaries["lent secret"]}],
        "user_id": canaries["lent user id"],
    }
    lent = {"toolgate/context": context, "toolgate/call_id": canaries["mcp call id"]}
    given = {"arguments": {canaries["mcp argument name"]: canaries["mcp argument"]}}
    answers = []
    for tool in lab.tools:
        meta = {**lent, "toolgate/call_id": f"{canaries['mcp call id']}-{tool}"}
        answers.append(
            await modern(http, canaries, "tools/call", {"name": tool.replace(".", "_"), **given, "_meta": meta})
        )
    for does in ("answers", "fails", "errs", "asks", "crashes", "babbles"):
        arguments = {"do": does, "text": canaries["studio argument"]}
        answers.append(await modern(http, canaries, "tools/call", {"name": "Studio_find_it", "arguments": arguments}))
    answers += await consenting(http, canaries, given)
    for params in ({"name": canaries["mcp tool"]}, {"name": "Lab_Echo", "arguments": canaries["mcp no object"]}):
        answers.append(await modern(http, canaries, "tools/call", params))
    answers.append(await modern(http, canaries, canaries["mcp method"], {}))
    answers.append(await modern(http, canaries, "tasks/get", {"taskId": canaries["task id"]}))
    return answers + await legacy_session(http, canaries)


async def consenting(http: httpx.AsyncClient, canaries: Canaries, given: Any) -> list[httpx.Response]:
    """A call whose user is asked, and what is brought back of it."""
    opens: dict[str, Any]
    opens, call = {"elicitation": {"url": {}}}, {"name": "Lab_Challenges", **given}
    asked = await modern(http, canaries, "tools/call", call, capabilities=opens)
    state = canaries.made["request state"] = asked.json()["result"]["requestState"]
    responses = {key: {"action": "decline", "content": canaries["mcp answer"]} for key in ("c1", "c2")}
    back = {**call, "requestState": state, "inputResponses": responses}
    forged = {**back, "requestState": canaries["forged state"]}
    return [asked, *[await modern(http, canaries, "tools/call", each, capabilities=opens) for each in (back, forged)]]


async def legacy_session(http: httpx.AsyncClient, canaries: Canaries) -> list[httpx.Response]:
    client = {"name": canaries["legacy client name"], "version": canaries["client version"]}
    offered = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    began = await http.post("/mcp", json=message("initialize", offered), headers=USUAL)
    session = canaries.made["session id"] = began.headers["mcp-session-id"]
    headers = {**USUAL, "Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
    echoed = {"name": "Lab_Echo", "arguments": {"text": canaries["legacy argument"]}}
    bodies = [
        json.dumps(message("tools/call", echoed)),
        json.dumps(message("tools/list", {"cursor": canaries["cursor"]})),
        json.dumps(message("notifications/cancelled", {"requestId": 1, "reason": canaries["reason"]}, None)),
        canaries["mcp no json"],
    ]
    answers = [await http.post("/mcp", content=body, headers=headers) for body in bodies]
    answers.append(await http.get("/mcp", headers={**headers, "Last-Event-ID": canaries["event id"]}))
    forged = {**headers, "Mcp-Session-Id": canaries["forged session"], "MCP-Protocol-Version": canaries["mcp version"]}
    answers.append(await http.post("/mcp", content=bodies[0], headers=forged))
    answers.append(
        await http.post(f"/mcp/{canaries['mcp path'].replace('-', '_')}", content=bodies[0], headers=headers)
    )
    return [began, *answers]


def message(method: str, params: Any, id_: int | None = 1) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return body if id_ is None else {**body, "id": id_}
