"""MCP as callers speak it: requests of both eras, and how calls, tasks and questions are answered."""
