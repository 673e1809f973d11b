"""The protocols that callers speak."""

from __future__ import annotations

from gateway.dialects.recognise import REST
from gateway.ports import Surface

SURFACES: tuple[Surface, ...] = (REST,)  # the first speaks for paths that are none's
