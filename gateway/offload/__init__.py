"""A child process for work on untrusted bytes that may take long or much memory.

The event loop must not wait for a schema's worst pattern, nor for a document of a million empty objects. Such work is
handed to a child with limits on memory and processor time. A child that needs more is ended, and only that task fails.
"""

from gateway.offload.parent import ChildTasks, Offload, OffloadError, OverrunError, reading_s

__all__ = ["ChildTasks", "Offload", "OffloadError", "OverrunError", "reading_s"]
