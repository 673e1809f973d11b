"""Where requests to a callback tool server go: to which of its replicas, and to which of the URLs that it names.

URLs that a tool server names are followed only to its own origins, and to origins that the operator has named.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from gateway.net.client import Origin, Pool
from gateway.upstream.admission import Replica
from gateway.upstream.replica_url import Server, path_and_query

REMEMBERED = 10_000  # runs that have not ended, some 200 bytes each

Target = tuple[Pool, bytes]  # connections to an origin, and the path and query there


class CallbackTargets:
    """The replicas of one tool server, and the `others`: origins besides theirs at which it may name URLs."""

    def __init__(self, replicas: Sequence[Replica[Server]], others: Mapping[Origin, Pool]) -> None:
        self._replicas = replicas
        self._servers = [replica.target for replica in replicas]
        self._pools = {**others, **{server.pool.origin: server.pool for server in self._servers}}
        self._servers_of_runs: OrderedDict[str, Server] = OrderedDict()

    def find(self, url: str) -> Target | None:
        """Where a URL leads that the tool server has named; None if its origin is not allowed."""
        try:
            return self._pools[Origin.parse(url)], path_and_query(url)
        except (ValueError, KeyError):
            return None

    def endpoints(self, url: str) -> Mapping[Server, Target]:
        """Where each replica takes calls, by the endpoint that one of them names; nowhere if that is not allowed.

        An endpoint below the URL of a replica is the same path below the URL of each; another path at its origin is
        that path at the origin of each. All replicas share an endpoint that is elsewhere.
        """
        target_there = self.find(url)
        if target_there is None:
            return {}
        pool, target = target_there
        own_servers = [server for server in self._servers if server.pool.origin == pool.origin]
        if not own_servers:
            return dict.fromkeys(self._servers, target_there)
        above = [base for base in (server.target("/") for server in own_servers) if target.startswith(base)]
        if not above:
            return {server: (server.pool, target) for server in self._servers}
        below = target[len(max(above, key=len)) :]
        return {server: (server.pool, server.target("/") + below) for server in self._servers}

    def note_sent(self, run_id: str, server: Server) -> None:
        """Remembers which replica gets a run."""
        if len(self._servers) == 1:
            return
        if len(self._servers_of_runs) >= REMEMBERED:
            self._servers_of_runs.popitem(last=False)
        self._servers_of_runs[run_id] = server

    def release(self, run_id: str) -> Sequence[Server]:
        """The replicas to tell that a run is over, which is forgotten then.

        That is the one that got it. If another process sent it, or too many have been sent since, it is every replica
        that takes calls: notices about runs that are not theirs do no harm (Tool Cancellation, Thread Closure).
        """
        server = self._servers_of_runs.pop(run_id, None)
        if server is not None:
            return [server]
        up = [replica.target for replica in self._replicas if replica.breaker.state == "closed"]
        return up or self._servers

    async def aclose(self) -> None:
        """Closes every connection."""
        for pool in self._pools.values():
            await pool.aclose()
