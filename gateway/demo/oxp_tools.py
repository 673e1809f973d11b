"""The tools of the OXP demonstration server: a mailbox, text messages and notes, each needing something more.

Requirements as OXP 1.0 has them: Mail wants the user's consent, Sms a secret of the caller, Notes to know the user.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict

from gateway.demo.consent import Consent
from gateway.demo.toolbox import Context, Json, JsonObject, Tool, ToolError, object_schema

PROVIDER = "demo-mail"
GOOD_TOKEN = "demo-token"  # noqa: S105 - printed in the documentation: it opens nothing but the messages below
SMS_SECRET = "SMS_API_KEY"  # noqa: S105 - its name
MAX_USERS = 200  # with notes; the one not heard of for longest goes first
MAX_NOTES = 50  # per user
MAX_NOTE_CHARACTERS = 500

MESSAGES = [
    {"id": "m-1", "from": "billing@example.com", "subject": "Invoice 1042", "date": "2025-03-02"},
    {"id": "m-2", "from": "ana@example.com", "subject": "Lunch on Friday?", "date": "2025-03-04"},
    {"id": "m-3", "from": "billing@example.com", "subject": "Invoice 1057", "date": "2025-04-02"},
    {"id": "m-4", "from": "alerts@example.com", "subject": "Disk almost full", "date": "2025-04-09"},
]
STRING = {"type": "string"}
MESSAGE_SCHEMA = object_schema({"id": STRING, "from": STRING, "subject": STRING, "date": STRING})
NOTE_SCHEMA = object_schema({"id": STRING, "text": STRING}, "id", "text")


def authorize(consent: Consent, context: Context) -> list[JsonObject]:
    """The challenge for a caller with no good token, whose user is not connected either."""
    token = context.tokens.get(PROVIDER)
    if token is not None:
        # A token that is presented decides alone, and a bad one means the old consent went wrong: ask anew.
        good = hmac.compare_digest(token.encode(), GOOD_TOKEN.encode())
        return [] if good else [consent.challenge(context.user_id, fresh=True)]
    return [] if consent.is_connected(context.user_id) else [consent.challenge(context.user_id)]


async def search_mail(arguments: JsonObject, _context: Context) -> Json:
    words = arguments["query"].casefold()
    found = [message for message in MESSAGES if words in f"{message['from']} {message['subject']}".casefold()]
    return found[: int(arguments.get("limit", len(MESSAGES)))]  # 2.0 is an integer in JSON Schema


async def send_sms(arguments: JsonObject, _context: Context) -> Json:
    return {"status": "queued", "to_last4": arguments["to"][-4:]}


class Notebook:
    """Notes by user, in memory, the oldest users forgotten first."""

    def __init__(self) -> None:
        self._notes: OrderedDict[str, list[JsonObject]] = OrderedDict()

    async def create(self, arguments: JsonObject, context: Context) -> Json:
        notes = self._notes.setdefault(context.user_id, [])
        self._notes.move_to_end(context.user_id)
        if len(self._notes) > MAX_USERS:
            self._notes.popitem(last=False)
        if len(notes) >= MAX_NOTES:
            raise ToolError(f"There is no room for more than {MAX_NOTES} notes")
        note = {"id": f"note-{len(notes) + 1}", "text": arguments["text"]}
        notes.append(note)
        return note

    async def read(self, _arguments: JsonObject, context: Context) -> Json:
        return self._notes.get(context.user_id, [])


def tools() -> list[Tool]:
    """Everything the server offers."""
    notebook = Notebook()
    query = {"type": "string", "maxLength": 200}
    phone = {"type": "string", "pattern": "^[+]?[0-9]{7,15}$"}
    return [
        Tool(
            id="Mail.Search",
            version=(1, 0, 0),
            description="Searches senders and subjects of the user's mail.",
            input_schema=object_schema({"query": query, "limit": {"type": "integer", "minimum": 1}}, "query"),
            output_schema={"type": "array", "items": MESSAGE_SCHEMA},
            run=search_mail,
            requirements={"authorization": [{"id": PROVIDER, "oauth2": {"scopes": ["mail.read"]}}], "user_id": True},
        ),
        Tool(
            id="Sms.Send",
            version=(1, 0, 0),
            description="Sends a text message.",
            input_schema=object_schema({"to": phone, "text": {"type": "string", "maxLength": 160}}, "to", "text"),
            output_schema=object_schema({"status": STRING, "to_last4": STRING}, "status", "to_last4"),
            run=send_sms,
            requirements={"secrets": [{"id": SMS_SECRET}]},
        ),
        Tool(
            id="Notes.Create",
            version=(1, 0, 0),
            description="Writes a note for the user.",
            input_schema=object_schema({"text": {"type": "string", "maxLength": MAX_NOTE_CHARACTERS}}, "text"),
            output_schema=NOTE_SCHEMA,
            run=notebook.create,
            requirements={"user_id": True},
        ),
        Tool(
            id="Notes.List",
            version=(1, 0, 0),
            description="Lists the user's notes.",
            input_schema=object_schema({}),
            output_schema={"type": "array", "items": NOTE_SCHEMA},
            run=notebook.read,
            requirements={"user_id": True},
        ),
    ]
