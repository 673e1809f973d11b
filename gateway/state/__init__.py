"""What the gateway remembers of calls that can be asked for again, and where. Read `port` first: it is the contract.

- In memory: `memory`, made of `entries`.
- In Redis: `redis` runs the Lua script in `script/` through the `script_client`. `records` encodes what it stores, and
  `sealing` seals it. `owned_calls` restores what a Redis has lost; `replica_sync` is the background work.
"""
