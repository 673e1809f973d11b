"""Judges programs of others by the checks of a protocol: tool servers and clients of OTC, OXP, RAP and RCRT."""

__version__ = "0.2.0"
