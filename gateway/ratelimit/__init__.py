"""How often callers may ask: exact rate limits, in this process or shared by all replicas through Redis.

Every limit is a GCRA (the leaky bucket as a meter of ITU-T I.371): a bucket is one number, the time at which it will
be full again. `rules` says which limits a request meets, `limits` applies them in two phases, `memory` and `redis` keep
the buckets, `outcome` makes headers and refusals.
"""

from gateway.ratelimit.limits import RateLimits
from gateway.ratelimit.memory import MemoryBuckets
from gateway.ratelimit.outcome import RateLimited
from gateway.ratelimit.rules import Rule

__all__ = ["MemoryBuckets", "RateLimited", "RateLimits", "Rule"]
