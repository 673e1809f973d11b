"""The limits as the pipeline asks them: what it gets back is what callers are told (`ports.Limiter`)."""

from __future__ import annotations

from gateway.ports import Operation, Target
from gateway.ratelimit.limits import UNLIMITED, Limits
from gateway.ratelimit.outcome import headers
from gateway.wire import Headers


class Limiter:
    """Answers with the headers of draft-ietf-httpapi-ratelimit-headers-10."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.spends = limits.spends
        self.is_here = limits.is_here
        self.verification_failed = limits.verification_failed
        self.start = limits.start
        self.aclose = limits.aclose

    def admit(self, operation: Operation, ip: str) -> Headers:
        outcome = self._limits.admit(operation, ip)
        return () if outcome is UNLIMITED else headers(outcome)

    def spend_here(self, operation: Operation, caller: str, ip: str, target: Target | None) -> Headers:
        """As `spend`, only where `is_here`."""
        outcome = self._limits.spend_here(operation, caller, ip, target)
        return () if outcome is UNLIMITED else headers(outcome)

    async def spend(self, operation: Operation, caller: str, ip: str, target: Target | None) -> Headers:
        outcome = await self._limits.spend(operation, caller, ip, target)
        return () if outcome is UNLIMITED else headers(outcome)
