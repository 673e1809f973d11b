"""Calls that are kept: registered before they run, joined by their repetitions, remembered after they end.

Read `calls` first: what callers may do with such calls, and where backends bring outcomes.

- `running` runs them in this process, one `attempt` each; `orphans` takes over those of replicas that died.
- `endings` writes down how they ended, in a `backlog` while the state is away.
- `callbacks` answers tool servers that bring an outcome later.
- `names` makes the digests that the state knows calls by; `finding` turns an id that a caller asks for into a record.
- `standing` says how a call stands, in the words of its record; `preference` reads the `Prefer` header.
"""
