"""MCP as tool servers speak it: sessions and channels, requests, responses, lists and tasks."""
