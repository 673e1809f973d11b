"""The keys of an issuer that publishes them: fetched in the background, kept while it cannot be reached.

A call waits for a fetch only when its token asks for a key that is not here; and for tokens that do, the issuer is
asked at most once per cooldown, so that callers cannot cause a request for each token.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from msgspec import Struct

from gateway.auth.fetching import UnavailableError, discovered_key_set, key_set
from gateway.auth.keyset import KeySet, KeySetError
from gateway.auth.signatures import Verifier
from gateway.model import Json, JsonObject

log = logging.getLogger("gateway.auth")

FETCH_S = 5.0  # for all of a fetch; calls may wait for it, and most callers' patience is longer


class IssuerStatus(Struct, frozen=True, kw_only=True):
    """How an issuer stands. `up`: the last fetch succeeded; `age_s`: of the keys in use; `keys`: how many fit.

    `last_error` is of a few words, never of the issuer's own.
    """

    up: bool
    age_s: float | None
    keys: int
    last_error: str | None

    def as_json(self) -> JsonObject:
        """For the detailed health."""
        age_s = None if self.age_s is None else round(self.age_s, 1)
        return {"up": self.up, "age_s": age_s, "keys": self.keys, "last_error": self.last_error}


class RemoteKeys:
    """The keys of one issuer: the set at `url`, or without one where the issuer `name` itself says it is.

    They are fetched every `refresh_s`, a little jitter taken off, and after a failure every `cooldown_s`; for tokens
    with a key we do not have once in `cooldown_s` at most.
    """

    def __init__(
        self,
        name: str,
        url: str | None,
        *,
        algorithms: frozenset[str],
        refresh_s: float,
        cooldown_s: float,
        fetch_s: float = FETCH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.algorithms = algorithms
        self._name = name
        self._url = url
        self._refresh_s = refresh_s
        self._cooldown_s = cooldown_s
        self._fetch_s = fetch_s
        self._clock = clock
        self._document: Json = None
        self._keys = KeySet()
        self._asked_at = float("-inf")
        self._fetched_at: float | None = None
        self._is_failing = True
        self._last_error: str | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    def find(self, kid: object, algorithm: str) -> Verifier | None:
        """The key that a token's header asks for."""
        return self._keys.find(kid, algorithm)

    @property
    def is_empty(self) -> bool:
        return self._keys.is_empty

    @property
    def may_change(self) -> bool:
        """Whether a fetch is under way, or another one due for a key that is missing."""
        return self._fetching is not None or self._clock() >= self._asked_at + self._cooldown_s

    @property
    def status(self) -> IssuerStatus:
        """How the issuer stands."""
        age_s = None if self._fetched_at is None else self._clock() - self._fetched_at
        up = age_s is not None and not self._is_failing
        return IssuerStatus(up=up, age_s=age_s, keys=len(self._keys), last_error=self._last_error)

    async def refresh(self) -> None:
        """Waits for the fetch under way, or starts one if it is due."""
        if not self.may_change:
            return
        if self._fetching is None:
            self._asked_at = self._clock()
        await asyncio.wait([self._fetch()])  # a caller that leaves does not end it for the others

    def start(self) -> None:
        """Begins to keep the keys current, unless it does already."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep())

    def pace(self, refresh_s: float, cooldown_s: float) -> None:
        """From now on they are fetched that often."""
        if (refresh_s, cooldown_s) == (self._refresh_s, self._cooldown_s):
            return
        self._refresh_s, self._cooldown_s = refresh_s, cooldown_s
        if self._keeping is not None:  # its pause may be a week yet
            self._keeping.cancel()
            self._keeping = None
            self.start()

    async def aclose(self) -> None:
        """Stops; the keys stay."""
        tasks = [task for task in (self._keeping, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.wait([self._fetch()])
            pause_s = min(self._cooldown_s, self._refresh_s) if self._is_failing else self._refresh_s
            await asyncio.sleep(pause_s * random.uniform(0.9, 1.0))  # noqa: S311 - so that replicas do not come in step

    def _fetch(self) -> asyncio.Task[None]:
        """The fetch under way, or a new one."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_once())
        return self._fetching

    async def _fetch_once(self) -> None:
        try:
            async with asyncio.timeout(self._fetch_s):
                self._take(await self._document_now())
            self._fetched_at = self._clock()
            self._is_failing, self._last_error = False, None
        except (UnavailableError, KeySetError, TimeoutError) as exc:
            self._is_failing = True
            reason = str(exc) or f"no answer in {self._fetch_s:g} s"
            self._last_error = reason.partition(":")[0]  # the kind; the rest may quote the issuer
            log.warning("the keys of an issuer could not be fetched", extra={"issuer": self._name, "reason": reason})
        finally:
            self._fetching = None

    async def _document_now(self) -> Json:
        if self._url is None:
            return await discovered_key_set(self._name)
        return await key_set(self._url)

    def _take(self, document: Json) -> None:
        """Puts the keys of a document in the place of those we had. Raises KeySetError."""
        if document == self._document:
            return
        self._keys = KeySet.read(document, self.algorithms)
        self._document = document
        if self._keys.is_empty:
            log.warning("an issuer has no key that fits its algorithms", extra={"issuer": self._name})
        else:
            log.info("the keys of an issuer have changed", extra={"issuer": self._name})
