"""Other people's programs, unchanged, in front of the gateway and behind it.

Each program lives in an environment of its own under `.venvs/`, so that none of its dependencies is ours.
"""
