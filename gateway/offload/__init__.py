"""A child process for work on bytes that somebody else chose and that may take long or much memory.

The event loop must not wait for a schema's worst pattern, nor for a document of a million empty objects. Such work is
handed to a child, which may use so much memory and so much processor time and no more: one that needs more is ended,
and only the one who asked for it hears of that.
"""

from gateway.offload.checker import Checker
from gateway.offload.client import BusyError, FailedError, Offload, OffloadError, OverrunError

__all__ = ["BusyError", "Checker", "FailedError", "Offload", "OffloadError", "OverrunError"]
