"""What a tool server of each protocol is held to."""

from toolgate_conformance.servers import rap, rcrt, rest

__all__ = ["rap", "rcrt", "rest"]
