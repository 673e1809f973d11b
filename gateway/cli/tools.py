"""`toolgate tools`: lists the tools of a running gateway."""

from __future__ import annotations

import argparse
import asyncio

from gateway.cli.output import OK, complain, first_line, print_answer, say, table, terminal_width
from gateway.cli.remote import add_options, explained, gateway_of
from gateway.client import Tool, Toolgate
from gateway.client.answers import GatewayReply, ToolList, read

DESCRIPTION = (
    "Lists the tools that you may use: the arguments of each ([optional] ones in brackets), and what else it needs."
)

add_arguments = add_options


def run(arguments: argparse.Namespace) -> int:
    reply, listed = asyncio.run(_listed(gateway_of(arguments)))
    if arguments.json:
        print_answer(reply.body)
    elif listed.items:
        rows = [(tool.id, _input(tool), _needs(tool), first_line(tool.description)) for tool in listed.items]
        say(*table(("TOOL", "INPUT", "NEEDS", "DESCRIPTION"), rows, terminal_width()))
    else:
        complain("There is no tool you may use.")
    return OK


async def _listed(gateway: Toolgate) -> tuple[GatewayReply, ToolList]:
    """The list as it came, and as it is read. Raises CommandError."""
    with explained(gateway):
        async with gateway:
            reply = await gateway.ask("GET", "/tools")
            listed = read(reply.body, ToolList) if reply.status == 200 else None
            if listed is None:
                gateway.refused(reply)
            return reply, listed


def _input(tool: Tool) -> str:
    properties, required = tool.input_schema.get("properties"), tool.input_schema.get("required")
    if not isinstance(properties, dict) or not properties:
        return "-"
    needed = required if isinstance(required, list) else []
    return " ".join(name if name in needed else f"[{name}]" for name in properties)


def _needs(tool: Tool) -> str:
    needs = tool.requirements
    ids = [item.id for item in (*needs.authorization, *needs.secrets)]
    return ", ".join([*ids, *(["user_id"] if needs.user_id else [])]) or "-"
