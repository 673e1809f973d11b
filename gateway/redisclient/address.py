"""Where Redis is, as `state.url` says it.

`redis://[user:password@]host[:6379][/0]`, with `rediss` for TLS. Through Sentinel, in the form most Python programs
know: `redis+sentinel://[user:password@]host[:26379][,host[:26379]...]/service[/0]`, with `rediss+sentinel` for TLS to
the sentinels and the servers alike; user and password are for the servers.

A cluster is `redis+cluster://[user:password@]host[:6379][,host[:6379]...]`, with `rediss+cluster` for TLS to all nodes:
some of them, which know the others. It has no databases.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from msgspec import Struct

REDIS_PORT, SENTINEL_PORT = 6379, 26379
MAX_SENTINELS = 16  # all of them are asked whenever a connection is made; three or five are usual
MAX_NODES = 64  # that the URL names, to begin with

HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,255})(:[0-9]{1,5})?"
USER = r"((?P<user>[^:@/?#\s]*)(:(?P<password>[^@/?#\s]*))?@)?"
DATABASE = r"(/(?P<database>[0-9]{0,3}))?"
ALONE = re.compile(rf"(?P<scheme>rediss?)://{USER}(?P<hosts>{HOST}){DATABASE}")
WATCHED = re.compile(  # a service that is a number is a database whose service was left out
    rf"(?P<scheme>rediss?)\+sentinel://{USER}(?P<hosts>{HOST}(,{HOST})*)/(?P<service>(?![0-9]+(/|$))[A-Za-z0-9._-]{{1,200}}){DATABASE}"
)
CLUSTER = re.compile(rf"(?P<scheme>rediss?)\+cluster://{USER}(?P<hosts>{HOST}(,{HOST})*)/?")


class RedisAddress(Struct, frozen=True, kw_only=True):
    """A server, the sentinels that know which server it is, or nodes of a cluster."""

    hosts: tuple[tuple[str, int], ...]  # with their ports
    is_tls: bool
    service: str | None  # by which the sentinels know the server; None: no sentinels
    database: int
    is_cluster: bool
    user: str | None
    password: str | None

    @classmethod
    def parse(cls, url: str) -> RedisAddress:
        """Raises ValueError, which repeats nothing of the URL."""
        match = ALONE.fullmatch(url) or WATCHED.fullmatch(url) or CLUSTER.fullmatch(url)
        if match is None:
            raise ValueError("is not the address of a Redis server")
        parts = match.groupdict()
        port = REDIS_PORT if parts.get("service") is None else SENTINEL_PORT
        pairs = re.findall(HOST, parts["hosts"])
        hosts = tuple((host.strip("[]"), int(digits.removeprefix(":") or port)) for host, digits in pairs)
        most, what = (MAX_NODES, "nodes") if match.re is CLUSTER else (MAX_SENTINELS, "sentinels")
        if len(hosts) > most:
            raise ValueError(f"names more than {most} {what}")
        if not all(1 <= number <= 65535 for _, number in hosts):
            raise ValueError("has a port that is not between 1 and 65535")
        return cls(
            hosts=hosts,
            is_tls=parts["scheme"] == "rediss",
            service=parts.get("service"),
            database=int(parts.get("database") or 0),
            is_cluster=match.re is CLUSTER,
            user=unquote(parts["user"] or "") or None,
            password=unquote(parts["password"] or "") or None,
        )

    def __repr__(self) -> str:
        """The URL without user and password."""
        scheme = "rediss" if self.is_tls else "redis"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        if self.is_cluster:
            return f"{scheme}+cluster://{hosts}"
        if self.service is not None:
            return f"{scheme}+sentinel://{hosts}/{self.service}/{self.database}"
        return f"{scheme}://{hosts}/{self.database}"
