"""A make-believe account provider: authorization challenges, and the pages where a user answers them.

Follows OXP 1.0, Tool Authorization Challenges. There is no login: any visitor of the link may connect or decline.
"""

from __future__ import annotations

import html
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from gateway.demo.toolbox import JsonObject

MAX_CHALLENGES = 1000  # oldest go first; a forgotten one reads as failed
CHALLENGE_LIFETIME_S = 600.0  # the time a person may take to find the page and decide
TITLE = "Demo Mail"
PURPOSE = "read the demonstration mailbox"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 1rem system-ui; max-width: 32rem; margin: 4rem auto; }} button {{ font: inherit }}</style></head>
<body><h1>{title}</h1>{content}</body></html>
"""
QUESTION = """<p>May tools {purpose} of <strong>{user}</strong>?</p>
<form method="post" action="{path}"><button>Connect</button>
<button formaction="{path}/decline">Decline</button></form>"""
ANSWERS = {
    "completed": "<p>Connected. Go back and repeat the call.</p>",
    "failed": "<p>This request was declined, or it expired. Repeat the call to get a new one.</p>",
}
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address of the page is its key
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
}


@dataclass
class _Challenge:
    user_id: str
    expires_at: float
    status: str = "pending"


class ConsentRecords:
    """Who was asked for consent, and who gave it. Forgets the oldest when full, and all when the server stops."""

    def __init__(self, base_url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._base_url = base_url
        self._clock = clock
        self._challenges: OrderedDict[str, _Challenge] = OrderedDict()

    def is_connected(self, user_id: str) -> bool:
        return self._latest(user_id, "completed") is not None

    def challenge(self, user_id: str, *, fresh: bool = False) -> JsonObject:
        """A ToolAuthorizationChallenge: the one this user has open, unless a fresh one is wanted."""
        challenge_id = None if fresh else self._latest(user_id, "pending")
        if challenge_id is None:
            challenge_id = secrets.token_urlsafe(24)  # the id alone opens the page, so it must not be guessed
            self._challenges[challenge_id] = _Challenge(user_id, self._clock() + CHALLENGE_LIFETIME_S)
            if len(self._challenges) > MAX_CHALLENGES:
                self._challenges.popitem(last=False)
        url = f"{self._base_url}/connect/{challenge_id}"
        return {"id": challenge_id, "url": url, "check_url": f"{url}/status"}

    def status(self, challenge_id: str) -> str:
        """`pending`, `completed` or `failed`; an unknown id was forgotten, and so failed."""
        challenge = self._challenges.get(challenge_id)
        if challenge is None or (challenge.status == "pending" and challenge.expires_at <= self._clock()):
            return "failed"
        return challenge.status

    def user_of(self, challenge_id: str) -> str:
        return self._challenges[challenge_id].user_id

    def settle(self, challenge_id: str, *, connect: bool) -> None:
        """Records the user's answer; only the first one counts."""
        if self.status(challenge_id) == "pending":
            self._challenges[challenge_id].status = "completed" if connect else "failed"

    def _latest(self, user_id: str, status: str) -> str | None:
        for challenge_id, challenge in reversed(self._challenges.items()):
            if challenge.user_id == user_id and self.status(challenge_id) == status:
                return challenge_id
        return None


def routes(consent: ConsentRecords, *, title: str = TITLE, purpose: str = PURPOSE) -> list[Route]:
    """The pages of the user, and the address where callers watch for the answer.

    The page headed `title` asks whether tools may `purpose` of the user.
    """

    async def page(request: Request) -> Response:
        challenge_id = request.path_params["challenge_id"]
        status = consent.status(challenge_id)
        if status == "pending":
            user = html.escape(consent.user_of(challenge_id))
            content = QUESTION.format(purpose=purpose, user=user, path=f"/connect/{challenge_id}")
        else:
            content = ANSWERS[status]
        document = PAGE.format(title=title, content=content)
        return HTMLResponse(document, 404 if status == "failed" else 200, headers=PAGE_HEADERS)

    async def connect(request: Request) -> Response:
        consent.settle(request.path_params["challenge_id"], connect=True)
        return await page(request)

    async def decline(request: Request) -> Response:
        consent.settle(request.path_params["challenge_id"], connect=False)
        return await page(request)

    async def check(request: Request) -> Response:
        status = consent.status(request.path_params["challenge_id"])
        return JSONResponse({"status": status}, headers={"Cache-Control": "no-store"})

    return [
        Route("/connect/{challenge_id}", page),
        Route("/connect/{challenge_id}", connect, methods=["POST"]),
        Route("/connect/{challenge_id}/decline", decline, methods=["POST"]),
        Route("/connect/{challenge_id}/status", check),
    ]
