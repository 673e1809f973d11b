"""What the gateway remembers of calls that can be asked for again, and where.

Read `port` first: it is the contract, and all that the rest of the gateway sees. `common` is what both implementations
share.

- In memory: `memory`, made of `entries`.
- In Redis: `redis`, which runs the Lua script in `script/` through the `script_client`, over `connections` to the
  servers at an `address`. What the script stores is encoded by `records` and sealed by `sealing`. `owned_calls` has the
  calls that this process runs or watches over, so that a Redis that lost them gets them back; `replica_sync` is the
  background work.
"""
