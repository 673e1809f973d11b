"""`python -m tests.bench.sharing redis:1 cluster:4`: what a keyed call costs with one Redis, or a cluster of three.

The number is that of the workers, each of which has as many callers. Of the servers, which have no replicas here: CPU
time, scripts, bytes on the wire and memory of each call, and connections.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from redis import Redis

from tests.bench.children import redis_server
from tests.bench.credentials import hs256, new_secret
from tests.bench.lineup import QUIET
from tests.bench.machine import BenchError, Cores, cpu_s, pinned, raise_open_files
from tests.bench.plan import QUICK
from tests.bench.poller import Poller
from tests.bench.rounds import Place
from tests.bench.subjects import Load, Subject, toolgate
from tests.support.redis_cluster import running_cluster

CONNECTIONS = 64  # of each worker
CALLERS = 64  # principals; in a cluster each has a partition, of which there are as many
WARM_UP, CALLS = 500, 4000
IDLE_S = 6.0
KEPT: dict[str, object] = {"result_ttl": "1h", "seen_ttl": "1h"}
HEAD = (
    "state, workers | CPU of the gateway, idle | CPU of Redis, idle | scripts of a call | bytes in, out"
    " | memory of Redis | connections"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Where the state is, and how many workers share it."""

    state: str
    workers: int

    @classmethod
    def parse(cls, text: str) -> Asked:
        state, _, workers = text.partition(":")
        if state not in ("redis", "cluster"):
            raise argparse.ArgumentTypeError("is redis:WORKERS or cluster:WORKERS")
        return cls(state, int(workers))


@dataclass(frozen=True, slots=True)
class Counts:
    """What the servers have counted since they began, all together."""

    cpu_s: float
    scripts: int
    in_bytes: int
    out_bytes: int
    memory: int
    clients: int

    @classmethod
    def of(cls, servers: Sequence[Redis]) -> Counts:
        found = [server.info("everything") for server in servers]

        def total(key: str) -> float:
            return float(sum(each[key] for each in found))

        scripts = sum(each.get("cmdstat_evalsha", {"calls": 0})["calls"] for each in found)
        return cls(
            cpu_s=total("used_cpu_user") + total("used_cpu_sys"),
            scripts=scripts,
            in_bytes=int(total("total_net_input_bytes")),
            out_bytes=int(total("total_net_output_bytes")),
            memory=int(total("used_memory")),
            clients=int(total("connected_clients")) - len(found),
        )


@contextmanager
def servers(state: str, cores: Cores, folder: Path) -> Iterator[tuple[str, list[Redis]]]:
    """Empty servers: the URL of all, and a client of each."""
    if state == "redis":
        with redis_server(cores.others, folder) as url:
            yield url, [Redis.from_url(url)]
        return
    with running_cluster(folder / "cluster", replicas=False) as cluster:
        yield cluster.url, [node.connect() for node in cluster.nodes]


@contextmanager
def place(asked: Asked) -> Iterator[tuple[Place, Subject, list[Redis]]]:
    """The gateway to be started, with its state there."""
    cores, poller = Cores.choose(), Poller()
    with (
        TemporaryDirectory(prefix="bench-") as folder,
        pinned(cores.others),
        servers(asked.state, cores, Path(folder)) as (url, clients),
    ):
        state = {**KEPT, "url": url, "keys": [new_secret()]}
        config = {**QUIET, "server": {"workers": asked.workers}, "state": state}
        subject = Subject("sharing", toolgate, config=config, credentials=partial(hs256, CALLERS))
        yield Place(QUICK, cores, poller, lambda step: None), subject, clients
    poller.close()


def measure(asked: Asked) -> str:
    """A line of figures. What a gateway without calls takes meanwhile is subtracted, and shown apart."""
    with place(asked) as (here, subject, clients), here.run(subject) as (bed, running):
        load, pid = Load("", CONNECTIONS * asked.workers, keyed=True), running.pid
        assert pid is not None
        with here.swarm(running, load) as swarm:
            swarm.repeat(WARM_UP)
        idle_from, idle_s, before = time.monotonic(), cpu_s(pid), Counts.of(clients)
        bed.poller.serve_for(IDLE_S)
        waited_s, idle_s, after = time.monotonic() - idle_from, cpu_s(pid) - idle_s, Counts.of(clients)
        idle_redis_s = after.cpu_s - before.cpu_s
        begin, used_s, before = time.monotonic(), cpu_s(pid), Counts.of(clients)
        with here.swarm(running, load) as swarm:
            swarm.repeat(CALLS)
        share = (time.monotonic() - begin) / waited_s
        used_s, after = cpu_s(pid) - used_s, Counts.of(clients)
    used_s -= idle_s * share
    redis_s = after.cpu_s - before.cpu_s - idle_redis_s * share
    return (
        f"{asked.state:>7}, {asked.workers} | {used_s / CALLS * 1e6:4.0f} us, {idle_s / waited_s:.2%}"
        f" | {redis_s / CALLS * 1e6:4.0f} us, {idle_redis_s / waited_s:.2%}"
        f" | {(after.scripts - before.scripts) / CALLS:.2f}"
        f" | {(after.in_bytes - before.in_bytes) / CALLS:5.0f}, {(after.out_bytes - before.out_bytes) / CALLS:4.0f}"
        f" | {(after.memory - before.memory) / CALLS:5.0f} | {after.clients}"
    )


def main() -> int:
    """Prints a line for each; exits 2 if one cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sharing", description="What sharing a state costs.")
    parser.add_argument("asked", nargs="+", type=Asked.parse, metavar="STATE:WORKERS")
    raise_open_files()
    try:
        print(HEAD)
        for asked in parser.parse_args().asked:
            print(measure(asked), flush=True)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
