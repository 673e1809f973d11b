"""What a client of each protocol is held to: it is run against a scripted tool server, and watched."""

from toolgate_conformance.clients import rap, rcrt, rest

__all__ = ["rap", "rcrt", "rest"]
