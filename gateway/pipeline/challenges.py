"""Authorization challenges as callers see them: the tool server's `check_url` behind a token of ours.

OXP 1.0, Tool Authorization Challenges. How a check authenticates is left open there, so the token is the credential:
sealed with AES-256-GCM, unguessable. Only the gateway can read from it where to ask for the challenge's status.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallKey, Json, JsonObject
from gateway.core.sealing import Sealer, Unsealable
from gateway.core.surfaces import Awaited

# Tokens live so much longer than calls: one replica seals them by its clock, another opens them by its own. These may
# differ by an hour either way, as where a clock is set to the wrong time zone.
CLOCKS_DIFFER_S = 2 * 3600.0
MAX_CHECK_URL = 2048  # characters; the token, a third longer, must fit a request line
ASSOCIATED_DATA = b"challenge"
PATH = "/challenges/"

SHARED_S = 1.0  # clients look once a second; a consent that shows a second later does no harm
MAX_CHECKS_PER_BACKEND = 8  # at one backend: half of the connections that it has besides those of calls
MAX_SHARED = 1024  # answers held, with a check_url of 2 KiB at the most each
PENDING, FAILED = "pending", "failed"
HOLD_S = 20.0  # clients give up after 30 to 60 s
NOT_AUTHORIZED = "The user did not authorize this call, or the link has expired."


class ServerChallenge(Struct, frozen=True):
    """A challenge whose tool server is asked at `check_url`."""

    backend: str
    check_url: str


class CallChallenge(Struct, frozen=True):
    """A challenge that the call with this key waits for; its status is in the record of the call."""

    backend: str
    key: CallKey


Challenge = ServerChallenge | CallChallenge


class ChallengeLinks:
    """Seals and opens challenge tokens. The first key seals, all open; without keys one is made for this process.

    A tool server's `check_url` is asked for `lifetime_s` (as long as a call may take) at least. `public_url` is where
    callers reach us, without a slash at its end.
    """

    def __init__(
        self, keys: Sequence[str], public_url: Callable[[], str], *, lifetime_s: float, clock: Callable[[], float]
    ) -> None:
        self._sealer = Sealer(keys, "challenge")
        self.public_url = public_url
        self._lifetime_s = lifetime_s
        self._clock = clock

    def public(self, missing: Mapping[str, Json], backend: str) -> JsonObject:
        """`missing_requirements` of a tool server with each `check_url` replaced by one of ours."""
        body = dict(missing)
        if "authorization" in body:
            body["authorization"] = [self._public(challenge, backend) for challenge in body["authorization"]]
        return body

    def public_for_call(self, challenge: JsonObject, backend: str, key: CallKey) -> JsonObject:
        """The challenge that the call with this key waits for, with a `check_url` of ours."""
        return challenge | {"check_url": self._url(backend, key)}

    def _public(self, challenge: JsonObject, backend: str) -> JsonObject:
        check_url = challenge.get("check_url")
        if check_url is None:
            return challenge
        if len(check_url) > MAX_CHECK_URL or _is_key(check_url):
            return {key: value for key, value in challenge.items() if key != "check_url"}
        return challenge | {"check_url": self._url(backend, check_url)}

    def _url(self, backend: str, target: str) -> str:
        text = jsontext.encode([backend, target, self._clock() + self._lifetime_s + CLOCKS_DIFFER_S])
        token = base64.urlsafe_b64encode(self._sealer.seal(text, ASSOCIATED_DATA)).rstrip(b"=").decode()
        return self.public_url() + PATH + token

    def at(self, check_url: str) -> Challenge | None:
        """The challenge of one of our URLs; None as for `open`."""
        return self.open(check_url.rpartition(PATH)[2])

    def open(self, token: str) -> Challenge | None:
        """The challenge of a token; None for a token that is invalid or has expired."""
        try:
            sealed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            backend, target, expires = jsontext.decode(self._sealer.open(sealed, ASSOCIATED_DATA))
        except (ValueError, Unsealable):
            return None
        if _is_key(target):  # its record has an end of its own
            return CallChallenge(backend, CallKey(target))
        return ServerChallenge(backend, target) if self._clock() < expires else None


def _is_key(target: str) -> bool:
    """Whether a token holds the key of a call in place of a URL, which has a slash."""
    return "/" not in target


def digest(challenge: Challenge) -> str:
    """A short name of a challenge, to count by."""
    target = challenge.check_url if isinstance(challenge, ServerChallenge) else challenge.key
    return blake2b(f"{challenge.backend}\n{target}".encode(), digest_size=16).hexdigest()


class ChallengeStatusCache:
    """The latest status of each challenge: callers who ask at once share an answer, and few checks run at a time.

    A challenge link needs no credential, and each look asks the tool server, or the store of calls: links must not
    become a way to cause load there. `ask` gets the status of a challenge: `pending`, `completed` or `failed`.
    """

    def __init__(self, ask: Callable[[Challenge], Awaitable[str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._answers: OrderedDict[Challenge, tuple[str, float]] = OrderedDict()  # and when it was given
        self._under_way: dict[Challenge, asyncio.Task[str]] = {}
        self._counts: Counter[str] = Counter()  # of those under way, by backend

    async def status(self, challenge: Challenge) -> str:
        """The status of a challenge, at most a second old.

        With too many looks at other challenges under way, this is the last answer; without one, `pending`.
        """
        answer, given_at = self._answers.get(challenge, (PENDING, -SHARED_S))
        if self._clock() < given_at + SHARED_S:
            return answer
        look = self._under_way.get(challenge)
        if look is None:
            if self._counts[challenge.backend] >= MAX_CHECKS_PER_BACKEND:
                return answer
            look = self._begin(challenge)
        return await asyncio.shield(look)  # a caller who leaves does not end it for others

    async def aclose(self) -> None:
        """Ends the looks under way."""
        under_way = list(self._under_way.values())
        for look in under_way:
            look.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _begin(self, challenge: Challenge) -> asyncio.Task[str]:
        look = asyncio.get_running_loop().create_task(self._look(challenge))
        self._under_way[challenge] = look
        self._counts[challenge.backend] += 1
        look.add_done_callback(lambda _: self._end(challenge))
        return look

    async def _look(self, challenge: Challenge) -> str:
        status = await self._ask(challenge)
        self._answers[challenge] = status, self._clock()
        self._answers.move_to_end(challenge)
        while len(self._answers) > MAX_SHARED:
            self._answers.popitem(last=False)
        return status

    def _end(self, challenge: Challenge) -> None:
        look = self._under_way.pop(challenge)
        if not look.cancelled():
            look.exception()  # those who wait for it get it
        self._counts[challenge.backend] -= 1
        if not self._counts[challenge.backend]:
            del self._counts[challenge.backend]


class Consents:
    """Waits for users whose consent calls need; `hold_s` at most, for their callers wait, too."""

    def __init__(self, challenges: ChallengeLinks, looks: ChallengeStatusCache, *, hold_s: float = HOLD_S) -> None:
        self._challenges = challenges
        self._looks = looks
        self._hold_s = hold_s

    async def wait(self, awaited: Awaited) -> None:
        """Returns once no challenge is open that can be asked about. Raises MISSING_REQUIREMENTS.

        A call that waits for its user itself has an end that its repetition gets, whatever it is.
        """
        urls = [challenge["check_url"] for challenge in awaited.challenges if "check_url" in challenge]
        pending = [self._challenges.at(url) for url in urls]
        until = time.monotonic() + self._hold_s
        while True:
            statuses = await asyncio.gather(*map(self._status, pending))
            for challenge, status in zip(pending, statuses, strict=True):
                if status == FAILED and not isinstance(challenge, CallChallenge):
                    raise GatewayError(ErrorCode.MISSING_REQUIREMENTS, NOT_AUTHORIZED)
            pending = [challenge for challenge, status in zip(pending, statuses, strict=True) if status == PENDING]
            if not pending:
                return
            if time.monotonic() + SHARED_S > until:
                raise awaited.refusal()
            await asyncio.sleep(SHARED_S)

    async def _status(self, challenge: Challenge | None) -> str:
        return FAILED if challenge is None else await self._looks.status(challenge)
