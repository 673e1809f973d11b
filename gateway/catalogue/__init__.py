"""Lists the tools of all backends in the background, evaluates them, and keeps encoded lists."""
