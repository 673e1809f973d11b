"""The screen of `toolgate demo`: what to paste into another terminal, and what to expect of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.model import JsonObject

FLAT = ("OXP-Version: 1.0",)
OTC, OXP = "otc://1.0", "urn:oxp:1.0"
BUILD, BUILD_ID, BUILD_S = "Builds.build", "build-1", 5  # longer than demo.yaml has anybody wait


@dataclass(frozen=True, slots=True)
class Example:
    """One request. `expect` is the status and a part of the answer; `body` None makes it a GET."""

    what: str
    path: str
    body: JsonObject | None
    expect: str
    headers: Sequence[str] = ()

    def curl(self, url: str) -> str:
        """A line for any POSIX shell; the token comes from the variable exported before."""
        words = ["curl", "-sS", "-w", r"\n%{http_code}\n", f"{url}{self.path}"]
        line = " ".join(map(shlex.quote, words)) + ' -H "Authorization: Bearer $TOOLGATE_TOKEN"'
        headers, data = list(self.headers), ""
        if self.body is not None:
            headers.append("Content-Type: application/json")
            data = f" -d {shlex.quote(json.dumps(self.body))}"
        return line + "".join(f" -H {shlex.quote(header)}" for header in headers) + data


def introduction(url: str, admin_url: str, *, token: str, user: str, command: str) -> str:
    """Everything the demonstration prints once it runs."""
    return "\n".join(
        [
            f"Toolgate is listening on {url} (for operators: {admin_url}/health). Ctrl-C stops it.",
            "",
            "Paste any of these into another terminal:",
            "",
            "# this one first: where the gateway is, and who you are",
            f"export TOOLGATE_URL={shlex.quote(url)} TOOLGATE_TOKEN={shlex.quote(token)}",
            "",
            "One tool, on a server that speaks OTC, called in five dialects; behind each -> is what to expect:",
            *_lines(_one_tool_in_every_dialect(), url),
            "",
            "A catalogue, and what happens when a call needs something or goes wrong:",
            *_lines(_what_tools_need(user), url),
            "",
            "Tool servers that answer later, one by calling back and one with breadcrumbs:",
            *_lines(_tools_that_answer_later(user), url),
            "",
            "The same without curl:",
            f"{command} tools",
            f"{command} call Calculator.Add a=2 b=40",
            f"{command} call {BUILD} seconds={BUILD_S} --call-id {BUILD_ID}",
            f"{command} call Mail.Search query=invoice --user-id {user}",
        ]
    )


def _lines(examples: Iterable[Example], url: str) -> list[str]:
    return [line for example in examples for line in (f"# {example.what} -> {example.expect}", example.curl(url))]


def _one_tool_in_every_dialect() -> list[Example]:
    call = {"tool_id": "Calculator.Add@1", "input": {"a": 2, "b": 40}}
    return [
        Example("the draft RFC of OTC", "/rfc/call", {"request": call}, '200, "output": {"value": 42}'),
        Example("OTC 1.0", "/otc/tools/call", {"$schema": OTC, "request": call}, '200, "value": 42'),
        Example("OXP 1.0", "/oxp/tools/call", call, '200, "value": 42', FLAT),
        Example("OXP 1.0, enveloped", "/oxp-env/tools/call", {"$schema": OXP, "request": call}, '200, "value": 42'),
        Example("the form of the LangChain family", "/lc/tools/call", {"request": call}, '200, "value": 42'),
    ]


def _what_tools_need(user: str) -> list[Example]:
    """Without a prefix in the path: the dialect is recognised."""
    wrong = {"tool_id": "Calculator.Add@1", "input": {"a": 2, "b": "forty"}}
    ring = {"tool_id": "Doorbell.Ring", "input": {"doorbell_id": "doorbell1"}}
    sms = {"tool_id": "Sms.Send", "input": {"to": "+4712345678", "text": "hello"}}
    secret = {"context": {"secrets": [{"id": "SMS_API_KEY", "value": "any"}]}}
    mail = {"tool_id": "Mail.Search", "input": {"query": "invoice"}, "context": {"user_id": user}}
    path = "/tools/call"
    return [
        Example("the catalogue, as OXP lists it", "/tools", None, '200, "items": [', FLAT),
        Example("wrong input never reaches a tool", path, wrong, '422, "parameter_errors": {"b":', FLAT),
        Example("a tool that fails is an answer", path, ring, '200, "can_retry": true', FLAT),
        Example(
            "a tool on an OXP server that needs a secret", path, sms, '400, "secrets": [{"id": "SMS_API_KEY"}]', FLAT
        ),
        Example("the same with the secret", path, sms | secret, '200, "status": "queued"', FLAT),
        Example(
            "a mailbox that wants the consent of its user, in OTC: open the url, connect, paste again",
            path,
            {"$schema": OTC, "request": mail},
            '400, "url":',
        ),
    ]


def _tools_that_answer_later(user: str) -> list[Example]:
    lint = {"tool_id": "Builds.lint", "input": {"source": "print(1) "}}
    build = {"call_id": BUILD_ID, "tool_id": BUILD, "input": {"seconds": BUILD_S}}
    deploy = {"tool_id": "Builds.deploy", "input": {"target": "staging"}, "context": {"user_id": user}}
    dice = {"tool_id": "Crumbs.random", "input": {"min": 1, "max": 6}}
    path = "/tools/call"
    return [
        Example("a tool that calls back at once", path, lint, '200, "problem": "trailing whitespace"', FLAT),
        Example(
            "one that takes longer than anybody waits: paste again for its value",
            path,
            build,
            '200, "message": "The tool is still running."',
            FLAT,
        ),
        Example(
            "one that wants the consent of its user and then goes on by itself: open the url, connect, paste again",
            path,
            deploy,
            '400, "url":',
            FLAT,
        ),
        Example("a tool behind breadcrumbs", path, dice, '200, "numbers": [', FLAT),
    ]
