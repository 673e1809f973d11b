"""Sockets and bytes: the HTTP server, the HTTP client, and what bounds what both hold. Knows no tools."""
