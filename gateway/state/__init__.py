"""What the gateway remembers of calls that can be asked for again, and where. Read `port` first: it is the contract.

- In memory: `memory`, made of `entries`.
- In Redis: `redis` is made of partitions (one, or many in a cluster). A `partition` runs the Lua script in `script/`.
  `records` encodes what it stores, and `sealing` seals it. `owned_calls` restores what a Redis has lost; `replica_sync`
  is the background work.
- `store` is what they need of the servers: `server_store` is one server, `cluster` is many; both run operations in
  batches (`batching`).
"""
