"""Toolgate: a gateway between AI agents and their tools."""

__version__ = "0.1.0"
