"""What befalls the machines of a simulation: a few faults each time, some of them just when an operation is done."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation.gateway import ELSEWHERE, Gateway
from tests.simulation.loop import Machine
from tests.simulation.servers import Server, calls_in
from tests.simulation.world import Loss, World

LAST_S = 20.0  # when the last fault begins
OPERATIONS = (b"begin", b"begin", b"claim", b"claim", b"advance", b"settle", b"forget", b"restore", b"watch", b"take")
ARRIVES, DONE = "arrives", "is done"
AIMED = 0.75  # of the faults at an operation
FOREVER_S = 1e9
DEMOTED_S = 1.0  # within which a primary that has been replaced learns of it, once it runs


class Faults:
    """Plans the faults of a world, and makes them happen. `told` is the plan, for people."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = random.Random(f"{world.seed} faults")
        self.told: list[str] = []
        self._asking: Machine | None = None
        self._triggers: list[tuple[str, bytes, list[int], Callable[[], None]]] = []
        world.before_operation = lambda by, names: self._look(by, names, ARRIVES)
        world.after_operation = lambda by, names: self._look(by, names, DONE)
        kinds: tuple[Callable[[], None], ...] = (
            self._kill,
            self._kill,
            self._freeze,
            self._cut,
            self._freeze_server,
            self._hold,
            self._replace,
            self._restart,
            self._slow,
        )
        if world.cluster is not None:
            kinds = (*kinds, self._move, self._move, self._move)
        for _ in range(self.chance.choice((1, 2, 2, 3, 4))):
            self._plan(self.chance.choice(kinds))

    def _plan(self, kind: Callable[[], None]) -> None:
        what = kind.__name__.strip("_")
        if kind != self._hold and self.chance.random() < 0.5:
            at_s = self.chance.uniform(0.2, LAST_S)
            self.told.append(f"{what} at {at_s:.3f} s")
            self.world.loop.call_at(at_s, kind, context=ELSEWHERE)
        else:
            name, count = self.chance.choice(OPERATIONS), self.chance.choice((1, 1, 2, 3, 5, 8))
            moment = ARRIVES if kind == self._hold else self.chance.choice((ARRIVES, DONE))
            self.told.append(f"{what} once {name.decode()} number {count} {moment}")
            self._triggers.append((moment, name, [count], kind))

    def _look(self, by: Machine, names: list[bytes], moment: str) -> None:
        """Makes what was planned for this moment happen, mostly to the gateway that has asked."""
        for at, name, left, kind in self._triggers:
            if at == moment and name in names:
                left[0] -= 1
                if left[0] == 0 and self.world.loop.now < LAST_S:
                    self._asking = by if self.chance.random() < AIMED else None
                    kind()
                    self._asking = None

    def _note(self, text: str) -> None:
        self.world.note(f"*** {text}")

    def _soon(self, delay_s: float, what: Callable[[], None]) -> None:
        self.world.loop.call_later(delay_s, what, context=ELSEWHERE)

    # Gateways.

    def _any(self) -> Gateway | None:
        there = [gateway for gateway in self.world.gateways if not gateway.machine.is_dead]
        asking = [gateway for gateway in there if gateway.machine is self._asking]
        if asking and len(there) > 1:
            return asking[0]
        return self.chance.choice(there) if len(there) > 1 else None  # one is left, which takes over

    def _absent(self, gateway: Gateway, lasts_s: float) -> None:
        now_s = self.world.loop.now
        gateway.machine.absences.append((now_s, now_s + lasts_s))

    def _kill(self) -> None:
        gateway = self._any()
        if gateway is None:
            return
        self._note(f"{gateway.machine} dies")
        self._absent(gateway, FOREVER_S)
        self.world.held_by_dead |= gateway.held_back
        self.world.loop.kill(gateway.machine)
        gateway.died()
        for server in self.world.servers:
            server.hang_up(gateway.machine)
        self._soon(self.chance.uniform(0.5, 8.0), self._start)

    def _start(self) -> None:
        gateway = self.world.add_gateway()
        self._note(f"{gateway.machine} starts")

    def _freeze(self) -> None:
        gateway = self._any()
        if gateway is None or gateway.machine.is_frozen:
            return
        lasts_s = self.chance.choice((0.3, 1.5, 4.0, 12.0, 20.0))
        self._note(f"{gateway.machine} is frozen for {lasts_s} s")
        self._absent(gateway, lasts_s)
        self.world.loop.freeze(gateway.machine)
        self._soon(lasts_s, lambda: self.world.loop.thaw(gateway.machine))

    def _cut(self) -> None:
        gateway, server = self._any(), self._server()
        if gateway is None:
            return
        ends, lasts_s = (gateway.machine.name, server.name), self.chance.choice((0.3, 1.5, 4.0, 12.0, 20.0))
        if self.world.network.is_cut(*ends):
            return
        self._note(f"{ends[0]} and {ends[1]} are cut off from each other for {lasts_s} s")
        self._absent(gateway, lasts_s)
        self.world.network.cut(*ends)
        self._soon(lasts_s, lambda: self.world.network.heal(*ends))

    def _slow(self) -> None:
        factor, lasts_s = self.chance.choice((5.0, 30.0, 200.0)), self.chance.uniform(0.5, 8.0)
        self._note(f"the network is {factor:.0f} times slower for {lasts_s:.1f} s")
        self.world.network.slowness = factor
        self._soon(lasts_s, lambda: setattr(self.world.network, "slowness", 1.0))

    # Servers.

    def _server(self) -> Server:
        return self.chance.choice(self.world.primaries)

    def _move(self) -> None:
        """Moves a slot to another server of the cluster, which takes a while."""
        cluster = self.world.cluster
        if cluster is None:
            return
        slot, to = self.chance.choice(list(cluster.owners)), self._server()
        if to.machine.is_dead or not cluster.begin_move(slot, to):
            return
        self._note(f"slot {slot} moves to {to.name}")
        self._soon(self.chance.choice((0.01, 0.3, 2.0, 6.0)), lambda: self._moved(slot, to))

    def _moved(self, slot: int, to: Server) -> None:
        assert self.world.cluster is not None
        if self.world.cluster.end_move(slot, to):
            self._note(f"slot {slot} is at {to.name}")

    def _freeze_server(self) -> None:
        server = self._server()
        if server.machine.is_frozen or server.machine.is_dead:
            return
        lasts_s = self.chance.choice((0.2, 0.9, 2.0, 6.0, 14.0))
        self._note(f"{server.name} is frozen for {lasts_s} s")
        server.freeze()
        self._soon(lasts_s, server.thaw)
        replaced_s = self.chance.uniform(1.0, 3.0)
        if lasts_s > replaced_s and self.chance.random() < 0.6:
            self._soon(replaced_s, lambda: self._promote(server))
            self._soon(lasts_s + self.chance.uniform(0.0, DEMOTED_S), lambda: self._demote(server))

    def _hold(self) -> None:
        """Freezes the primary as an operation arrives, which is then carried out when all leases have run out."""
        server = self._server()
        if server.machine.is_frozen or server.machine.is_dead:
            return
        lasts_s = self.chance.choice((1.5, 12.0, 14.0))
        self._note(f"{server.name} is frozen for {lasts_s} s with what has just arrived")
        server.freeze()
        self._soon(lasts_s, server.thaw)

    def _replace(self) -> None:
        """Kills the primary; its copy takes its place, with what has reached it by then."""
        server = self._server()
        if server.machine.is_dead:
            return
        server.copy_lag_s = self.chance.choice((0.0, 0.001, 0.01, 0.5, 3.0))
        self._note(f"{server.name} dies, of which its copy lags {server.copy_lag_s} s behind")
        was_frozen = server.machine.is_frozen
        server.kill()
        if not was_frozen:  # else its copy may be on its way to replace it already
            self._soon(self.chance.uniform(0.5, 4.0), lambda: self._promote(server))
        else:
            self._promote(server)

    def _promote(self, server: Server) -> None:
        if server not in self.world.primaries:
            return
        count = server.arrived_by(self.world.loop.now if not server.machine.is_dead else server.died_s)
        successor = self.world.add_server(server.kept(count))
        self.world.primaries[self.world.primaries.index(server)] = successor
        if self.world.cluster is not None:
            self.world.cluster.replace(server, successor)
        self._note(f"{successor.name} takes the place of {server.name}, without {len(server.written) - count} writes")
        self._lose(server, count)
        server.replaced_after = count

    def _demote(self, server: Server) -> None:
        """The old primary learns that it is none any more; what it has written since is thrown away."""
        if server in self.world.primaries:
            return
        self._note(f"{server.name} is a copy now")
        self._lose(server, server.replaced_after)
        server.is_primary = False
        for slot in list(server.slots):
            server.slots.discard(slot)
            server.forget_channels(slot)
        if self.world.cluster is None:
            for connection in list(server.connections):
                connection.break_off()

    def _lose(self, server: Server, count: int) -> None:
        writers: dict[str, set[Machine]] = {}
        since_s: dict[str, float] = {}
        for written in server.written[count:]:
            by = {written.by} if written.moved is None else {gateway.machine for gateway in self.world.gateways}
            for key in written.calls():
                writers.setdefault(key, set()).update(by)
                since_s.setdefault(key, written.at_s if written.moved is None else 0.0)
        self.world.losses.append(Loss(self.world.loop.now, writers, since_s))

    def _restart(self) -> None:
        """Kills the primary, which comes back with all that it had, with what was on its disk, or with nothing."""
        server = self._server()
        if server.machine.is_dead or server.machine.is_frozen:
            return
        count = self.chance.choice((len(server.written), server.arrived_by(self.world.loop.now - 1.0), -1))
        self._note(f"{server.name} dies, and has kept {count} of {len(server.written)} writes (-1: nothing at all)")
        server.kill()
        kept = {} if count < 0 else server.kept(count)
        if count < 0:
            self._lose_all(server)
        else:
            self._lose(server, count)

        def start() -> None:
            if server in self.world.primaries:
                self._note(f"{server.name} starts")
                server.start(kept)

        self._soon(self.chance.uniform(0.05, 5.0), start)

    def _lose_all(self, server: Server) -> None:
        self._lose(server, 0)
        everybody = {gateway.machine for gateway in self.world.gateways}
        loss = self.world.losses[-1]
        for name in server.data.values:
            for key in calls_in(name):
                loss.writers[key] = everybody  # also those of the server before
                loss.since_s[key] = 0.0
