"""Software of others that speaks MCP, as clients and as tool servers. Run by `make test-interop`."""
