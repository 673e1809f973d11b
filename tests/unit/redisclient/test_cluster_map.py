"""How the data in a Redis Cluster are divided."""

from __future__ import annotations

import hashlib

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from gateway.redisclient.cluster_map import PARTITIONS, placements


def test_each_partition_lies_in_its_own_part_of_the_slots() -> None:
    parts = placements()
    assert [part.slot * PARTITIONS // REDIS_CLUSTER_HASH_SLOTS for part in parts] == list(range(PARTITIONS))
    assert [key_slot(f"{part.prefix}epoch".encode()) for part in parts] == [part.slot for part in parts]


def test_the_names_of_the_partitions_never_change() -> None:
    """Data of an earlier release would be looked for elsewhere."""
    prefixes = [part.prefix for part in placements()]
    assert prefixes[:3] == ["toolgate:{10}:", "toolgate:{18}:", "toolgate:{113}:"]
    assert hashlib.sha256("".join(prefixes).encode()).hexdigest().startswith("2b0e849d87f275cc")
