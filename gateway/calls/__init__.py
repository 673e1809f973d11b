"""Remembered calls: registered before they run, joined by their repetitions, remembered after they end.

Start with `registry`: what callers may do with such calls, and where backends bring outcomes.

- `executor` runs them in this process, each as an `execution` with a task; `orphans` takes over those of replicas
  that died.
- `outcomes` records how they end, in a `backlog` while the state is away.
- `callbacks` receives the outcomes that tool servers send later.
- `names` makes the digests that the state identifies calls by.
- `records` is what is recorded of a call, `status` what follows from it; `preference` reads the `Prefer` header.
"""
