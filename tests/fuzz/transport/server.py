"""A tool server that does to each request what its plan says, and keeps books on what reached it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator
from enum import Enum, auto

from tests.fuzz.transport.loops import DEADLINE_S
from tests.fuzz.transport.oracle import judge
from tests.fuzz.transport.plans import Ending, Plan, Tail, foreign
from tests.fuzz.transport.wires import TlsWire, Wire

BACKLOG = 100


class Greeting(Enum):
    """What a server does before it has read a request."""

    NONE = auto()
    FIN = auto()
    RESET = auto()
    RUBBISH = auto()
    UNSHAKEN_FIN = auto()  # under TLS before the handshake, else as FIN
    UNSHAKEN_RUBBISH = auto()
    SILENCE = auto()  # takes the connection and says nothing, not even in a handshake


class Server:
    """What a server does and has seen. `strict`: calls come one by one, so a connection once ended is over."""

    def __init__(self, authority: str, context: ssl.SSLContext | None, *, strict: bool) -> None:
        self.port = 0
        self.plans: dict[int, Plan] = {}
        self.seen: Counter[int] = Counter()  # heads of requests
        self.answered: set[int] = set()  # what the plan says has been done
        self.places: dict[int, str] = {}  # the address a request came to
        self.hung_up = 0  # ends that a caller on the same connection cannot foresee
        self.silent = 0  # requests that came after a reply behind which a plan falls silent
        self.greetings: deque[Greeting] = deque()
        self.greeted = 0
        self.connections = 0
        self.open = 0
        self.faults: list[str] = []
        self._authority = authority
        self._context = context
        self._strict = strict
        self._wires: dict[int, Wire] = {}

    def request(self, plan: Plan) -> bytes:
        """What must arrive for a plan."""
        return plan.request(f"{self._authority}:{self.port}".encode())

    def disturb(self, plan: Plan) -> None:
        """Does a plan's tail to its idle connection, at once."""
        wire = self._wires[plan.key]
        match plan.tail:
            case Tail.FIN:
                wire.end()
            case Tail.HALF:
                wire.end()
            case Tail.RESET:
                wire.reset()
            case Tail.SURPLUS:
                wire.send_now(foreign())

    def hang_up(self, key: int) -> None:
        """Ends the idle connection that a request came on, at once."""
        self._wires[key].end()
        self._wires[key].close()

    async def serve(self, sock: socket.socket) -> None:
        """Looks after one connection to its end."""
        self.connections += 1
        self.open += 1
        place = sock.getsockname()[0]
        wire = Wire(sock) if self._context is None else TlsWire(sock, self._context)
        try:
            if await self._greet(wire):
                await _Conversation(self, wire, place).run()
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            wire.close()

    async def _greet(self, wire: Wire) -> bool:
        """Whether the connection goes on."""
        greeting = self.greetings.popleft() if self.greetings else Greeting.NONE
        self.greeted += greeting is not Greeting.NONE
        bare = Greeting.UNSHAKEN_FIN, Greeting.UNSHAKEN_RUBBISH, Greeting.SILENCE
        if greeting not in bare:
            await wire.open()
        match greeting:
            case Greeting.RESET:
                wire.reset()
            case Greeting.RUBBISH:
                await wire.send(b"\0rubbish\r\n\r\n")
            case Greeting.UNSHAKEN_RUBBISH:
                Wire.send_now(wire, b"220 mail.example ESMTP\r\n")
            case Greeting.SILENCE:
                while await Wire.receive(wire):
                    pass
            case Greeting.FIN:
                wire.end()
        return greeting is Greeting.NONE

    def remember(self, plan: Plan, wire: Wire, place: str) -> None:
        """Notes the head of a request."""
        self.seen[plan.key] += 1
        self.places[plan.key] = place
        self._wires[plan.key] = wire

    @property
    def is_strict(self) -> bool:
        """Whether no byte may come on a connection that has ended, even by a hair."""
        return self._strict


class _Conversation:
    """One connection's requests, in turn."""

    def __init__(self, server: Server, wire: Wire, place: str) -> None:
        self._server = server
        self._wire = wire
        self._place = place
        self._got = bytearray()
        self._over: str | None = None  # why nothing may come any more

    async def run(self) -> None:
        while (plan := await self._next()) is not None:
            whole = self._server.request(plan)
            wanted = len(whole) if plan.reads is None else min(plan.reads, len(whole))
            if not await self._read(plan, whole, wanted):
                return
            await self._answer(plan)
            self._server.answered.add(plan.key)
            if self._wire.is_closed or not await self._read(plan, whole, len(whole)):
                return
            self._got = self._got[len(whole) :]
            if self._got:
                self._fault(f"{len(self._got)} bytes follow the request {plan.key}")

    async def _next(self) -> Plan | None:
        """Waits for the head of a request and finds its plan."""
        while b"\r\n\r\n" not in self._got:
            data = await self._wire.receive()
            if not data:
                return None
            if self._over is not None:
                self._fault(f"a request on a connection that is over: {self._over}")
            self._got += data
        key = int(self._got.split(b" ", 2)[1].removeprefix(b"/call/"))
        plan = self._server.plans[key]
        self._server.remember(plan, self._wire, self._place)
        return plan

    async def _read(self, plan: Plan, whole: bytes, wanted: int) -> bool:
        """Reads until so many bytes of a request are there; whether they came. All must be as they should."""
        while len(self._got) < wanted and (data := await self._wire.receive()):
            self._got += data
        if not whole.startswith(bytes(self._got[: len(whole)])):
            self._fault(f"request {plan.key} is not what was sent: {self._got[:300]!r}")
        return len(self._got) >= wanted

    async def _answer(self, plan: Plan) -> None:
        wire, server = self._wire, self._server
        verdict = judge(plan.method, plan.raw, ended=False)
        if plan.ending in (Ending.FIN, Ending.RESET, Ending.CUT, Ending.HALF):
            server.hung_up += 1
        await wire.send(plan.raw, plan.cuts, plan.pause, torn=plan.torn)
        match plan.ending:
            case Ending.STAY:
                if not verdict.reusable and (server.is_strict or not plan.wild):
                    self._over = f"the reply {plan.key} was its last: {plan.method!r} {plan.raw[:1000]!r}"
            case Ending.FIN:
                wire.end()
                wire.close()
            case Ending.HALF:
                wire.end()
                if server.is_strict:
                    self._over = f"it ended after the reply {plan.key}"
                await self._drain()
            case Ending.RESET:
                wire.reset()
            case Ending.CUT:
                wire.close()
            case Ending.STALL:
                server.answered.add(plan.key)
                await self._drain()

    async def _drain(self) -> None:
        """Reads to the end. A request that comes all the same is seen and gets no answer."""
        while data := await self._wire.receive():
            if found := re.search(rb" /call/(\d+) HTTP/1.1\r\n", data):
                plan = self._server.plans[int(found[1])]
                if self._over is not None:
                    self._fault(f"a request on a connection that is over: {self._over}")
                self._server.remember(plan, self._wire, self._place)
                self._server.silent += 1
                break
        self._wire.close()

    def _fault(self, what: str) -> None:
        self._server.faults.append(what)


@contextlib.asynccontextmanager
async def listening(server: Server, hosts: tuple[str, ...]) -> AsyncIterator[Server]:
    """Accepts connections until left, and then until each of them is over."""
    loop = asyncio.get_running_loop()
    listeners: list[socket.socket] = []
    serving: set[asyncio.Task[None]] = set()

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sock, _ = listener.accept()
            task = loop.create_task(server.serve(sock))
            serving.add(task)
            task.add_done_callback(serving.discard)

    try:
        for host in hosts:
            listener = _listen(host, server.port)
            listeners.append(listener)
            server.port = listener.getsockname()[1]
            loop.add_reader(listener.fileno(), accept, listener)
        yield server
        if serving:
            await asyncio.wait(serving, timeout=DEADLINE_S)
        assert not serving, "connections were left open"
    finally:
        for task in serving:
            task.cancel()
        for listener in listeners:
            loop.remove_reader(listener.fileno())
            listener.close()


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
