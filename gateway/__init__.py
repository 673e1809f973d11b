"""Toolgate: a multi-protocol gateway for AI tools (OTC and OXP in, OTC and OXP tool servers behind)."""

__version__ = "0.1.0"
