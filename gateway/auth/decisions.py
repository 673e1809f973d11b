"""What the service is asked about a call, and what it answers: the data API of Open Policy Agent.

`POST` of `{"input": {...}}`, answered with `{"result": true}` or `{"result": {"allow": true, "reason": "word"}}`.
https://www.openpolicyagent.org/docs/rest-api, Get a Document (with Input).
"""

from __future__ import annotations

import re

from msgspec import UNSET, Struct, UnsetType

from gateway.core import jsontext
from gateway.core.model import Arguments, Json, ToolCall
from gateway.core.ports import Caller, Target

DENIED = "denied"  # the reason of a denial that gives none which can be passed on
UNDECIDED = "undecided"  # the reason if the policy says nothing of the call
BUSY = frozenset({408, 429})  # of the service itself: they refuse no question
REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")  # fit for a header, a log and a sentence


class Decision(Struct, frozen=True):
    """Whether a call may run, and a word for why it may not."""

    allowed: bool
    reason: str = ""


class UnusableAnswerError(Exception):
    """An answer that decides nothing; the text is for our log and quotes nothing of it.

    `is_refusal`: the service refuses the question itself, as one that is too large. Whoever calls may have brought that
    about, so the call does not run.
    """

    def __init__(self, why: str, *, is_refusal: bool = False) -> None:
        super().__init__(why)
        self.is_refusal = is_refusal


class _PolicyInput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call as a policy sees it. A caller with a token has an issuer and a subject, one with an API key a key."""

    principal: str
    scopes: list[str]
    tool: str
    version: str
    backend: str
    route: str
    dialect: str
    issuer: str | None = None
    subject: str | None = None
    key: str | None = None
    user: str | None = None
    arguments: Arguments | UnsetType = UNSET


class _Question(Struct, frozen=True):
    input: _PolicyInput


def encode_question(
    call: ToolCall, target: Target, caller: Caller, dialect: str, *, with_arguments: bool = False
) -> bytes:
    """The body of the request. The same call of the same caller makes the same bytes."""
    issuer, subject, key = _parts(caller.principal)
    about = _PolicyInput(
        principal=caller.principal,
        scopes=sorted(caller.scopes),
        tool=target.tool,
        version=target.version,
        backend=target.backend,
        route=target.route.removeprefix(target.backend + "/"),
        dialect=dialect,
        issuer=issuer,
        subject=subject,
        key=key,
        user=call.context.user_id,
        arguments=call.arguments if with_arguments else UNSET,
    )
    return jsontext.encode(_Question(about))


def _parts(principal: str) -> tuple[str | None, str | None, str | None]:
    """Issuer, subject and key of a principal; in it, the subject has no colons of its own."""
    kind, _, rest = principal.partition(":")
    if kind == "jwt":
        issuer, _, subject = rest.rpartition(":")
        return issuer, subject.replace("%3A", ":").replace("%25", "%"), None
    return None, None, rest if kind == "key" else None


def read_decision(status: int, body: bytes) -> Decision:
    """Reads an answer. One without a decision denies: so does a policy that does not speak of the call.

    Raises UnusableAnswerError.
    """
    if status != 200:
        raise UnusableAnswerError(f"status {status}", is_refusal=400 <= status < 500 and status not in BUSY)
    try:
        document = jsontext.decode(body)
    except jsontext.JsonError as exc:
        raise UnusableAnswerError("the answer is not JSON") from exc
    if not isinstance(document, dict):
        raise UnusableAnswerError("the answer is no JSON object")
    result = document.get("result", {})
    if isinstance(result, bool):
        return Decision(result, "" if result else DENIED)
    if not isinstance(result, dict):
        raise UnusableAnswerError("'result' is neither true nor false, and no object")
    allowed = result.get("allow")
    if allowed is True:
        return Decision(True)
    if allowed is not None and allowed is not False:
        raise UnusableAnswerError("'result.allow' is neither true nor false")
    return Decision(False, _reason(result.get("reason"), UNDECIDED if allowed is None else DENIED))


def _reason(reason: Json, otherwise: str) -> str:
    return reason if isinstance(reason, str) and REASON.fullmatch(reason) else otherwise
