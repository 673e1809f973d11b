"""Toolgate: a gateway between AI agents and their tools."""

__version__ = "0.2.0"
