"""What `toolgate init` finds out before it writes: what a server speaks, which tools it has, who may call."""
