"""What an MCP server says beside values and schemas, as far as callers of MCP get it: `_meta`, and icons of tools.

It means nothing to the gateway, which only bounds it. What only we may say is left out, and what leads to pages that
the gateway does not serve (MCP Apps, SEP-1865).
"""

from __future__ import annotations

from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject
from gateway.protocols.mcp.wire import CALL_ID_MEMBER, ERROR_MEMBER

MAX_META_BYTES = 16 * 1024
MAX_ICONS, MAX_ICONS_BYTES = 8, 64 * 1024  # of one tool, all together
MAX_ICON_BYTES = 32 * 1024
RESERVED = "io.modelcontextprotocol/"
OURS = "toolgate/"
PAGES = ("ui/resourceUri", "openai/")
PAGE = "resourceUri"  # in the member `ui`


def passed_on(meta: Json, *, trust_meta: bool) -> JsonObject:
    """The `_meta` of a tool or a result without what is ours or the protocol's; empty if it is too long."""
    if not isinstance(meta, dict):
        return {}
    members = {
        name: value
        for name, value in meta.items()
        if not name.startswith((RESERVED, *PAGES))
        and name not in (CALL_ID_MEMBER, ERROR_MEMBER)
        and (trust_meta or not name.startswith(OURS))
    }
    if isinstance(ui := members.get("ui"), dict) and PAGE in ui:
        members["ui"] = {name: value for name, value in ui.items() if name != PAGE}
    return members if members and len(encode(members)) <= MAX_META_BYTES else {}


def icons_of(listed: Json) -> list[JsonObject]:
    """The icons of a tool that a client may show: from https, or images in the text, but none that hold scripts."""
    icons = [icon for icon in listed if _is_icon(icon)] if isinstance(listed, list) else []
    icons = icons[:MAX_ICONS]
    return icons if len(encode(icons)) <= MAX_ICONS_BYTES else []


def _is_icon(icon: Json) -> bool:
    source = icon.get("src") if isinstance(icon, dict) else None
    if not isinstance(source, str) or len(source) > MAX_ICON_BYTES or len(encode(icon)) > MAX_ICON_BYTES:
        return False
    kind = source[:32].lower()
    return kind.startswith("https://") or (kind.startswith("data:image/") and not kind.startswith("data:image/svg"))
