"""Invocations, and the ways in which what is called back goes wrong as ordered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.unit.demo.rap_caller import Caller


def quick(caller: Caller) -> dict[str, Any]:
    return caller.invocation("build", {"seconds": 0})


SPOILT: list[tuple[str, Callable[[dict[str, Any], dict[str, Any]], bool]]] = [
    ("wrong_id", lambda message, call: message["id"] != call["id"]),
    ("wrong_group", lambda message, call: message["group_id"] != call["group_id"]),
    ("call_id_omitted", lambda message, _: "call_id" not in message),
    ("call_id_null", lambda message, _: message["call_id"] is None),
    ("call_id_wrong", lambda message, _: message["call_id"] == "call-other"),
    ("missing_type", lambda message, _: "type" not in message),
    ("missing_group", lambda message, _: "group_id" not in message),
    ("unknown_type", lambda message, _: message["type"] == "progress"),
    ("unknown_fields", lambda message, _: "x_vendor" in message),
    ("text_not_a_string", lambda message, _: isinstance(message["text"], dict)),
    ("neither_text_nor_content", lambda message, _: not {"text", "content"} & set(message)),
    ("both_text_and_content", lambda message, _: {"text", "content"} <= set(message)),
    ("empty_content", lambda message, _: message["content"] == [] and bool(message["text"])),
    ("only_empty_content", lambda message, _: message["content"] == [] and "text" not in message),
    ("unknown_content", lambda message, _: message["content"][0]["type"] == "audio"),
    ("empty_text", lambda message, _: message["text"] == ""),
    ("plain_text", lambda message, _: message["text"] == "Built in 3 steps."),
    ("text_array", lambda message, _: message["text"] == "[1, 2, 3]"),
    ("text_scalar", lambda message, _: message["text"] == "42"),
    ("text_broken_json", lambda message, _: message["text"].startswith("{") and not message["text"].endswith("}")),
    ("text_big_integer", lambda message, _: json.loads(message["text"]) == {"build": 2**63 + 1}),
    ("big_text", lambda message, _: len(message["text"]) > 1024**2),
    ("error", lambda message, _: message["text"].startswith("Error: ")),
    ("error_unprefixed", lambda message, _: message["text"] == "Command cancelled."),
    ("error_mentioned_later", lambda message, _: message["text"].find("Error: ") > 0),
    ("display_as_list", lambda message, _: message["display_as"][0]["type"] == "text"),
    ("display_as_string", lambda message, _: isinstance(message["display_as"], str)),
    ("subscription_on_error", lambda message, _: message["subscription"] and message["text"].startswith("Error: ")),
    ("not_an_object", lambda message, _: isinstance(message, list)),
]
