"""Finds out what an operator should know of a Redis Cluster before it is used; leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from gateway.redisclient.address import RedisAddress
from gateway.redisclient.cluster_map import ClusterMap, RedisNode, placements
from gateway.redisclient.connections import Tls
from gateway.redisclient.inspection import SCRIPT, SILENT, Findings, ask, subscribe, version_of, warnings_of

TRIAL = "trial"  # a key and a channel of one partition of each node
LOWEST = 7  # the major version that has sharded publish and subscribe

T = TypeVar("T")

Remark = tuple[str, str]  # the name of a node, and what there is to say of it


async def inspect_cluster(address: RedisAddress, tls: Tls | None = None) -> Findings:
    """Asks all nodes what matters here, and tries on each what the gateway does."""
    nodes = ClusterMap(address, tls)
    try:
        await nodes.look()
        if nodes.trouble is not None:
            return Findings(version=None, cause=nodes.trouble, warnings=[])
        looks = await _all(_look(node, nodes.of(node)[0]) for node in nodes.nodes())
        uncovered = nodes.owners.count(None)
        causes = [f"{uncovered} of {len(nodes.owners)} partitions are in slots that no node has"] if uncovered else []
        causes += _together((name, cause) for name, _, cause in looks if cause is not None)
        versions = {version for _, version, _ in looks if version is not None}
        warnings = await warnings_of_nodes(nodes)
    finally:
        await nodes.aclose()
    return Findings(version=", ".join(sorted(versions)) or None, cause="; ".join(causes) or None, warnings=warnings)


async def _all(questions: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The answers, in order. If this is cancelled, so are the questions, and they have ended when it ends."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(question) for question in questions]
    return [task.result() for task in tasks]


async def _look(node: RedisNode, partition: int) -> tuple[str, str | None, str | None]:
    """The node's name and version, and why it cannot be used."""
    place, name = node.client.place, placements()[partition].prefix + TRIAL
    about, _ = await ask(node.client.info(), place)
    version = version_of(about) if about else None
    if about and int(str(about.get("redis_version", LOWEST)).partition(".")[0]) < LOWEST:
        return node.name, version, f"version {LOWEST}.0 is needed in a cluster, for sharded publish and subscribe"
    script = node.client.execute_command("EVAL", SCRIPT, 1, name)  # type: ignore[no-untyped-call]
    _, refused = await ask(script, place)
    _, deaf = (None, None) if refused else await ask(subscribe(node.client, name, sharded=True), place)
    return node.name, version, refused or deaf


async def warnings_of_nodes(nodes: ClusterMap) -> list[str]:
    """In which ways the nodes may lose calls, as far as they say."""
    by_node = await _all(_warnings(nodes, node) for node in nodes.nodes())
    return _together(remark for remarks in by_node for remark in remarks)


async def _warnings(nodes: ClusterMap, node: RedisNode) -> list[Remark]:
    place, partitions = node.client.place, nodes.of(node)
    about, silence = await ask(node.client.info(), place)
    words = [f"{SILENT}: {silence}"] if about is None else await warnings_of(node.client, about)
    if partitions and max(nodes.copies[number] for number in partitions) < 2:
        words.append("it has no replica: when it dies, its calls are away until it is back; add a replica")
    settings, _ = await ask(node.client.config_get("cluster-require-full-coverage"), place)
    if "yes" in (settings or {}).values():
        words.append(
            "cluster-require-full-coverage is yes: when slots have no node, no other node serves calls either; "
            "set it to no"
        )
    return [(node.name, word) for word in words]


def _together(remarks: Iterable[Remark]) -> list[str]:
    """Says once what is true of several nodes."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, words in remarks:
        names[words].append(name)
    return [f"{', '.join(nodes)}: {words}" for words, nodes in names.items()]
