"""Who is asked for the status of a challenge: the call that waits for it, or the tool server that made it."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.assembly.generation import Current
from gateway.calls.registry import Calls
from gateway.core.ports import Backend
from gateway.pipeline.challenges import CallChallenge, Challenge, ChallengeLinks, ChallengeStatusCache, digest
from gateway.pipeline.request import Request

FAILED = "failed"


class ChallengeLookup:
    """Answers for the tokens of challenges. `looks` has the statuses that were given lately."""

    def __init__(
        self, challenges: ChallengeLinks, calls: Calls, backends: Mapping[str, Backend], current: Current
    ) -> None:
        self.looks = ChallengeStatusCache(self._ask)
        self._challenges = challenges
        self._calls = calls
        self._backends = backends
        self._current = current

    async def of_token(self, request: Request, token: str) -> str:
        """The status of the challenge of a token. Raises RATE_LIMITED."""
        challenge = self._challenges.open(token)
        counted = None if challenge is None else digest(challenge)
        request.extra = self._current.limits().admit_look(request.ip, counted)
        return FAILED if challenge is None else await self.looks.status(challenge)

    async def _ask(self, challenge: Challenge) -> str:
        if isinstance(challenge, CallChallenge):
            return await self._calls.consent_status(challenge.key)
        backend = self._backends.get(challenge.backend)
        return FAILED if backend is None else await backend.challenge_status(challenge.check_url)
