"""Both event loops: their sockets differ in what they promise."""

from tests.unit.loops import anyio_backend

__all__ = ["anyio_backend"]
