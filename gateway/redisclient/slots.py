"""How the data in a Redis Cluster are divided: into partitions, each in one of the cluster's hash slots.

All keys of a partition have its prefix, whose hash tag decides the slot (Redis Cluster specification, hash tags). The
slots lie at equal distances, so servers with ranges of equal length get equal numbers of partitions. Their numbers and
their tags must never change: the data would be looked for elsewhere.
"""

from __future__ import annotations

from functools import cache
from itertools import count

from msgspec import Struct
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

PARTITIONS = 64


class Placement(Struct, frozen=True):
    """Where a partition is: what its keys begin with, and the slot that they are in."""

    prefix: str
    slot: int


@cache
def placements() -> tuple[Placement, ...]:
    """Of all partitions: the tag of each is the smallest number whose slot lies in its 64th of all slots."""
    width, found = REDIS_CLUSTER_HASH_SLOTS // PARTITIONS, dict[int, Placement]()
    for tag in count():
        slot = key_slot(b"%d" % tag)
        found.setdefault(slot // width, Placement(f"toolgate:{{{tag}}}:", slot))
        if len(found) == PARTITIONS:
            return tuple(found[number] for number in range(PARTITIONS))
    raise AssertionError
