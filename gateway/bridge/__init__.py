"""`toolgate bridge`: one MCP server that speaks over standard input and output, served as streamable HTTP."""
