"""What the gateway remembers of calls that can be asked for again, and where.

Read `port` first: it is the contract, and all that the rest of the gateway sees.

- In memory: `memory`, made of `entries`.
- In Redis: `redis`, which asks the Lua script in `script/` through `link`, over a `dedicated` connection to one of the
  `servers` at an `address`. What the script stores is encoded by `records` and sealed by `sealing`. `holding` has the
  calls that this process runs or watches over, so that a Redis that lost them gets them back, and `recent` those that
  have just ended; `tending` is the work in the background.
- Both use `waiting` (who waits for which call) and `checks` (what may be asked of a state).
- `inspection` looks at a Redis for `toolgate check --live`.
"""
