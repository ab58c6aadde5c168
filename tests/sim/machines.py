"""Simulated machines for whole programs: one loop under virtual time, on which every callback belongs to a machine's process.

A process can be killed or suspended between two of its callbacks: the loop drops them, or keeps them until it goes on. A machine
that loses its power has another disk afterwards: what of its files was synced, and by chance some of the rest.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, cast

from cometmq.broker.replication.group.member_files import BOOT_ID_PATH
from cometmq.net.memory_network import MemoryAccepted, MemoryNetwork, MemoryTransport, Pipe
from cometmq.net.network import Bound, OnAccepted
from cometmq.net.virtual_loop import VirtualLoop
from tests.support.fake_disk import FakeDisk

# Shortest and longest time that bytes take from one machine to another, and work in a thread, in seconds.
LATENCY_SECONDS = (0.0001, 0.003)
THREAD_SECONDS = (0.0001, 0.004)
_SYN_SECONDS = 0.25  # After which an unanswered request for a connection is repeated.
_END_SECONDS = 10.0  # Given to cancelled programs.
# Tasks that wait for a callback which was dropped: kept, as Python would complain of their coroutines.
_unended: list["asyncio.Task[Any]"] = []


class Process:
    """A running program.

    Attributes:
        machine: Where it runs.
        context: Context of its callbacks, by which the loop knows whose they are.
        is_alive: False after its end.
        is_paused: Whether it is suspended.
        held: Calls that were due while it was suspended.
    """

    def __init__(self, machine: "Machine") -> None:
        self.machine = machine
        self.is_alive = True
        self.is_paused = False
        self.held: list[_Call] = []
        self.context = copy_context()
        self.context.run(_process.set, self)


_process: ContextVar[Process | None] = ContextVar("process", default=None)


class _Call:
    """A callback of a process: it is dropped if the process has ended, and waits while it is suspended."""

    __slots__ = ("args", "callback", "context", "handle", "process")

    handle: asyncio.Handle

    def __init__(
        self,
        process: Process,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context,
    ) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        self.context = context

    def __call__(self) -> None:
        if self.handle.cancelled() or not self.process.is_alive:
            return
        if self.process.is_paused:
            self.process.held.append(self)
        else:
            self.callback(*self.args)


class MachineLoop(VirtualLoop):
    """A virtual loop that knows to which process each callback belongs."""

    network: "MachineNetwork"  # type: ignore[mutable-override]

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.network = MachineNetwork(self, Random(seed))

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        context = copy_context() if context is None else context
        process = context.get(_process)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(process, callback, args, context)
        call.handle = super().call_soon(call, context=context)
        return call.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        context = copy_context() if context is None else context
        process = context.get(_process)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        call = _Call(process, callback, args, context)
        call.handle = handle = super().call_at(when, call, context=context)
        return handle

    def beat_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        return self.call_later(seconds, callback).cancel

    def end(self) -> None:
        """Cancel all programs, also those that were killed, as Python would end their coroutines later; close the loop."""
        for machine in self.network.machines.values():
            machine.let_all_end()
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            waited = self.run_until_complete(asyncio.wait(tasks, timeout=_END_SECONDS))
            _unended.extend(waited[1])
        self.close()

    def go_on(self, process: Process) -> None:
        """Let a suspended process go on with what it missed."""
        process.is_paused = False
        held, process.held = process.held, []
        for call in held:
            super().call_soon(call, context=call.context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> "asyncio.Future[Any]":
        self.executor_seconds = self.network.chance.uniform(*THREAD_SECONDS)
        return super().run_in_executor(executor, func, *args)


class MachineClock:
    """The clocks of a machine (a `model.clock.Clock`).

    Attributes:
        ahead_ms: How much its wall clock is ahead of the true time.
    """

    is_steady = False

    def __init__(self, loop: MachineLoop, rate: float) -> None:
        """`rate` is the speed of the clock that leases use; 1 is true."""
        self.ahead_ms = 0
        self.monotonic = loop.clock.monotonic
        self._loop = loop
        self._rate = rate
        self._booted_at = loop.time()

    def boot(self) -> None:
        """Begin again at 0, but for the wall clock."""
        self._booted_at = self._loop.time()

    def now_ms(self) -> int:
        return self._loop.clock.now_ms() + self.ahead_ms

    def boot_ms(self) -> int:
        return int((self._loop.time() - self._booted_at) * self._rate * 1000)


class Machine:
    """A machine with its clocks and disk, on which one process runs at a time.

    Attributes:
        ip: Its address.
        clock: Its clocks.
        disk: Its disk, as a process sees it that is started now.
        process: The process; None if none runs.
        is_on: Whether it has power.
    """

    def __init__(self, ip: str, loop: MachineLoop, chance: Random) -> None:
        self.ip = ip
        self.clock = MachineClock(loop, chance.uniform(0.98, 1.02))
        self.disk = FakeDisk()
        self.process: Process | None = None
        self.is_on = True
        self._loop = loop
        self._chance = chance
        self._ended: list[Process] = []  # Kept, as Python would end their coroutines otherwise.
        self._boot()
        loop.network.machines[ip] = self

    def _boot(self) -> None:
        self.is_on = True
        self.clock.boot()
        disk = self.disk
        disk.clock = self.clock  # type: ignore[assignment]  # A hand clock in other tests.
        disk.make_directory(os.path.dirname(BOOT_ID_PATH))  # noqa: PTH120  A path of a fake disk.
        fd = disk.open(BOOT_ID_PATH, create=True)
        disk.pwrite(fd, b"%.6f" % self._loop.time(), 0)
        disk.close(fd)

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Switch the machine on if it is off, and run a program on it, which no other may do now."""
        assert self.process is None
        if not self.is_on:
            self._boot()
        self.process = Process(self)
        return self._loop.create_task(work, context=self.process.context)

    def run(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a tool next to the process; it is neither killed nor suspended with that."""
        return self._loop.create_task(work, context=Process(self).context)

    def lose_files(self) -> None:
        """Replace the disk by an empty one, while no process runs."""
        assert self.process is None
        self.disk = FakeDisk()
        self._boot()

    def kill(self) -> None:
        """End the process. The system closes its connections."""
        if self.process is not None:
            self._end(is_silent=False)
            self.disk = self.disk.kill()
            self.disk.clock = self.clock  # type: ignore[assignment]

    def cut_power(self) -> None:
        """Switch the machine off. The others do not notice."""
        self._end(is_silent=True)
        self.is_on = False
        self.disk = self.disk.power_cut(self._chance)

    def _end(self, *, is_silent: bool) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.is_alive = False
            self._ended.append(process)
            self._loop.network.ended(process, is_silent=is_silent)

    def let_all_end(self) -> None:
        """Let all its processes go on, so that they can be cancelled after a run."""
        for process in self._ended if self.process is None else (*self._ended, self.process):
            process.is_alive, process.is_paused = True, False

    def pause(self) -> None:
        """Suspend the process."""
        if self.process is not None:
            self.process.is_paused = True

    def resume(self) -> None:
        """Let the process go on."""
        if self.process is not None and self.process.is_paused:
            self._loop.go_on(self.process)


class _Server:
    """An address on which a process accepts connections (a `Bound`)."""

    def __init__(self, port: int, process: Process) -> None:
        self.port = port
        self.process = process
        self.on_accepted: OnAccepted | None = None

    @property
    def is_open(self) -> bool:
        return self.on_accepted is not None and self.process.is_alive

    def listen(self, on_accepted: OnAccepted) -> None:
        self.on_accepted = on_accepted

    def close(self) -> None:
        self.on_accepted = None


class MachineNetwork(MemoryNetwork):
    """The network between machines, whose connections have delays and can be cut in one or both directions.

    Attributes:
        chance: The source of its delays.
        machines: Machines by address.
        cuts: Pairs of sender and receiver, by address, between which nothing passes.
    """

    def __init__(self, loop: MachineLoop, chance: Random) -> None:
        super().__init__(loop)
        self.chance = chance
        self.machines: dict[str, Machine] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.loop = loop
        self._servers: dict[tuple[str, int], _Server] = {}
        self._wires: list[_Wire] = []
        self._client_port = 30_000

    def bind(self, host: str, port: int, *, is_shared: bool = False) -> Bound:
        old, process = self._servers.get((host, port)), _process.get()
        assert process is not None
        if old is not None and old.is_open:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is in use")
        server = self._servers[host, port] = _Server(port, process)
        return server

    def own_ip(self, host: str, port: int) -> str:
        process = _process.get()
        assert process is not None
        return process.machine.ip

    async def connect(
        self, make: Callable[[], Any], host: str, port: int, own_ip: str = ""
    ) -> tuple[MemoryTransport, Any]:
        near = _process.get()
        assert near is not None
        await self._reach(near.machine, self.machines[host])
        server = self._servers.get((host, port))
        if server is None or not server.is_open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} refuses")
        self._client_port += 1
        here, there = (near.machine.ip, self._client_port), (host, port)
        far = server.process
        ends = self._join((near, here), (far, there))
        protocol = make()
        ends[0].start(protocol)
        assert server.on_accepted is not None
        self.loop.call_soon(server.on_accepted, MemoryAccepted(ends[1]), context=far.context)
        return ends[0], protocol

    async def _reach(self, here: Machine, there: Machine) -> None:
        """Wait until a packet passes to the other machine, and its answer back."""
        await asyncio.sleep(self.latency())
        ways = {(here.ip, there.ip), (there.ip, here.ip)}
        while not there.is_on or ways & self.cuts:  # noqa: ASYNC110  A repeated packet.
            await asyncio.sleep(_SYN_SECONDS)

    def _join(
        self, near: tuple[Process, tuple[str, int]], far: tuple[Process, tuple[str, int]]
    ) -> list[MemoryTransport]:
        """Return both ends of a new connection."""
        ins, outs = (Pipe(), Pipe()), (Pipe(), Pipe())
        to_far = _Wire(self, (near[0], outs[0]), (far[0], ins[1]))
        to_near = _Wire(self, (far[0], outs[1]), (near[0], ins[0]))
        to_far.back, to_near.back = to_near, to_far
        self._wires = [each for each in self._wires if not each.is_over] + [to_far, to_near]
        return [
            MemoryTransport(
                cast(Any, _CallsOf(self.loop, own[0])),
                (own[1], other[1]),
                reads=reads,
                writes=writes,
            )
            for own, other, reads, writes in zip(
                (near, far), (far, near), ins, outs, strict=True
            )
        ]

    def latency(self) -> float:
        """Return how long some bytes take, in seconds."""
        return self.chance.uniform(*LATENCY_SECONDS)

    def is_cut(self, sender: Process, receiver: Process) -> bool:
        """Return whether nothing passes in this direction."""
        return (sender.machine.ip, receiver.machine.ip) in self.cuts

    def mend(self) -> None:
        """Let everything pass again; what was on its way arrives."""
        self.cuts.clear()
        for each in self._wires:
            each.go_on()

    def ended(self, process: Process, *, is_silent: bool) -> None:
        """Close the connections of a process that has ended; if its machine has no power, without a word to the other ends."""
        for each in self._wires:
            if each.sender is process:
                each.end(is_silent=is_silent)


class _CallsOf:
    """The part of a loop that a transport uses, for the process at its end."""

    def __init__(self, loop: MachineLoop, process: Process) -> None:
        self._loop = loop
        self._context = process.context

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> object:
        return self._loop.call_soon(callback, *args, context=self._context)


class _Wire:
    """One direction of a connection: bytes arrive in order, each piece after a delay; none arrives while it is cut.

    Attributes:
        sender: The process that writes.
        back: The other direction.
        is_over: Whether nothing will arrive any more.
    """

    back: "_Wire"

    def __init__(
        self,
        network: MachineNetwork,
        source: tuple[Process, Pipe],
        target: tuple[Process, Pipe],
    ) -> None:
        self.sender, self._source = source
        self._receiver, self._target = target
        self.is_over = False
        self._network = network
        self._loop = network.loop
        self._under_way: deque[tuple[float, bytes | None]] = deque()  # None: the end.
        self._has_ended = False
        self._is_taking = False
        self._timer: asyncio.TimerHandle | None = None
        self._source.on_change.append(self._take)

    def _take(self) -> None:
        """Send what was written."""
        if self._is_taking:
            return
        self._is_taking = True
        if self._source.size:
            self._send(self._source.read(self._source.size))
        self._is_taking = False
        if self._source.is_ended:
            self.end(is_silent=False)

    def _send(self, piece: bytes | None) -> None:
        if self._has_ended:
            return
        due = self._loop.time() + self._network.latency()
        if self._under_way:
            due = max(due, self._under_way[-1][0])
        self._under_way.append((due, piece))
        self.go_on()

    def end(self, *, is_silent: bool) -> None:
        """Send the end, after everything that was sent before; silently: nothing more arrives."""
        if is_silent:
            self._under_way.clear()
            self.is_over = True
        else:
            self._send(None)
        self._has_ended = True

    def go_on(self) -> None:
        """Let the first piece arrive in time, unless a timer is set."""
        if self._under_way and self._timer is None:
            self._timer = self._loop.call_at(
                self._under_way[0][0], self._arrive, context=Context()
            )

    def _arrive(self) -> None:
        self._timer = None
        if self._network.is_cut(self.sender, self._receiver):
            return
        while self._under_way and self._under_way[0][0] <= self._loop.time():
            self._deliver(self._under_way.popleft()[1])
        self.go_on()

    def _deliver(self, piece: bytes | None) -> None:
        if not self._receiver.is_alive:
            if self._receiver.machine.is_on:
                self.back.reset()
            return
        if piece is None:
            self.is_over = True
            self._target.end()
        elif not self._target.is_broken:
            self._target.write(piece)

    def reset(self) -> None:
        """Tell the receiver that the sender knows nothing of the connection, as it was started anew."""
        self._has_ended = self.is_over = False
        self._send(None)
        self._has_ended = True
