"""Toolgate: a multi-protocol gateway for AI tools: OTC and OXP in front; OTC, OXP, RAP and RCRT tool servers behind."""

__version__ = "0.1.0"
