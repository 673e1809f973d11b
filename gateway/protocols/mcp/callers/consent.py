"""How callers of MCP have their users open the URLs that a call needs (Elicitation, URL mode).

Modern callers (2026-07-28) bring the answers back with the same call and a state that is sealed for its caller, its
tool and its arguments; those of 2025-11-25 get an error and call again by themselves. All others read a result.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import Arguments, Json, JsonObject
from gateway.core.surfaces import Awaited
from gateway.protocols.mcp.callers.session_ids import Sealing

MAX_CHALLENGES = 16  # to be shown to one user for one call
MAX_STATE = 64 * 1024  # characters
DECLINED = "The user did not authorize this call."

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class UrlPrompt(Struct, frozen=True, kw_only=True):
    """How the caller of one call asks its user."""

    sealing: Sealing
    owner: str  # the caller, with the user whom its credential names (`owner_of`)
    user: str  # whom the call is for by its own words (`user_of`)
    tool: str
    arguments: Arguments
    is_modern: bool  # the caller brings the answers back
    asks: bool  # the caller can ask its user at all
    seen: frozenset[str] = frozenset()  # URLs that the user has opened for this call already

    def challenges_of(self, error: GatewayError) -> Sequence[JsonObject]:
        """The challenges of a refusal that the user can meet, and nothing else is missing; empty: there is no asking.

        A URL without a way to see how it went is shown once: it would be shown for ever.
        """
        missing = error.missing or {}
        challenges = missing.get("authorization", ())
        if (
            not self.asks
            or missing.keys() != {"authorization"}
            or len({challenge["id"] for challenge in challenges}) != len(challenges)
        ):
            return ()
        is_new = any("check_url" in challenge or challenge["url"] not in self.seen for challenge in challenges)
        return challenges if is_new and len(challenges) <= MAX_CHALLENGES else ()

    def state(self, message: str, challenges: Sequence[JsonObject]) -> str:
        """What the caller brings back."""
        sealed = self.sealing.seal(encode([message, challenges]), self._bound())
        return urlsafe_b64encode(sealed).decode()

    def awaited(self, state: Json) -> Awaited:
        """Reads what the caller has brought back. Raises ValueError."""
        if not isinstance(state, str) or len(state) > MAX_STATE:
            raise ValueError("no state of ours")
        sealed = b64decode(state, altchars=b"-_", validate=True)
        message, challenges = jsontext.decode(self.sealing.open(sealed, self._bound()))
        return Awaited(message, tuple(challenges))

    def after(self, awaited: Awaited) -> UrlPrompt:
        """The same once the user has opened these URLs."""
        return replace(self, seen=frozenset(challenge["url"] for challenge in awaited.challenges))

    def _bound(self) -> bytes:
        """What a state is sealed for."""
        arguments = self.arguments
        text = bytes(arguments) if isinstance(arguments, Raw) else _encode_sorted(arguments)
        return encode([self.owner, self.user, self.tool]) + blake2b(text, digest_size=32).digest()


def opens_urls(capabilities: Json) -> bool:
    """Whether a caller says that it shows users a URL; a bare `elicitation` means forms only."""
    elicitation = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)


def input_requests(message: str, challenges: Iterable[JsonObject]) -> JsonObject:
    """The requests to the user, by challenge (2026-07-28, Multi Round-Trip Requests)."""
    params = {challenge["id"]: {"mode": "url", "message": message, "url": challenge["url"]} for challenge in challenges}
    return {id_: {"method": "elicitation/create", "params": asking} for id_, asking in params.items()}


def elicitations(message: str, challenges: Iterable[JsonObject]) -> Sequence[JsonObject]:
    """The `data.elicitations` of the error for callers of 2025-11-25."""
    return [
        {"mode": "url", "elicitationId": challenge["id"], "url": challenge["url"], "message": message}
        for challenge in challenges
    ]


def unanswered(awaited: Awaited, responses: Json) -> GatewayError | None:
    """The refusal of a call whose user has not agreed to open every URL; of one who was not asked, asking again.

    None: the user has. Responses to what was not asked are ignored.
    """
    by_id = responses if isinstance(responses, dict) else {}
    entries = [by_id.get(challenge["id"]) for challenge in awaited.challenges]
    answers = [entry.get("action") if isinstance(entry, dict) else None for entry in entries]
    if "decline" in answers or "cancel" in answers:
        return GatewayError(ErrorCode.MISSING_REQUIREMENTS, DECLINED)
    if any(answer != "accept" for answer in answers):
        return awaited.refusal()
    return None
