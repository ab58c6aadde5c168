"""A server that accepts connections and limits their number, idle time and memory."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable

from cometmq.model.clock import Clock
from cometmq.model.errors import NetError
from cometmq.net.connections import COUNT_MAX, Connections
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.held_bytes import HeldBytes
from cometmq.net.loop import beat_later, loop_network
from cometmq.net.network import Accepted, Bound
from cometmq.net.peer import Peer
from cometmq.net.requests import StrangerGate
from cometmq.net.tasks import Tasks
from cometmq.net.tls import ServerTls, follow_certificate
from cometmq.net.turn import Turn

_log = logging.getLogger(__name__)

CONNECTIONS_MAX = 10_000
# Maximum bytes of incomplete frames, over all connections.
PARTIAL_SIZE_MAX = 56 << 20
# Maximum bytes of unread answers and of requests that wait for them, over all connections.
UNREAD_SIZE_MAX = 32 << 20
# Both sides close a silent connection after 120 s (serverChannelMaxIdleTimeSeconds).
IDLE_SECONDS_MAX = 120
_IDLE_SCAN_SECONDS = 5
# Seconds for the first byte of a connection, and for the header of a frame once the frame has begun.
FIRST_BYTE_SECONDS = 15.0
HEADER_SECONDS = 10.0
# Interval of idle checks as a share of the idle limit; a connection is closed at most this much too late.
_IDLE_SCAN_SHARE = 0.25
# Seconds that closing waits for answers to be sent.
_CLOSE_SECONDS_MAX = 2


class Server:
    """Listening addresses and the peers that connect to them.

    Attributes:
        dispatcher: Calls the request handlers.
        clock: Clock for timeouts.
        tasks: Background tasks of the server.
        turn: The read batch of its peers.
        bad_frames: Frames refused since the start.
        half_frames: Bytes of incomplete frames.
        unread_answers: Bytes of answers that peers have not read.
        is_own_machine_trusted: Whether peers on this machine may do more than others.
    """

    _end_greeting: Callable[[], object] | None = None  # Cancels the timer for newcomers.

    def __init__(
        self,
        dispatcher: Dispatcher,
        clock: Clock,
        *,
        connections_max: int = CONNECTIONS_MAX,
        connections_per_address_max: int = COUNT_MAX,
        partial_size_max: int = PARTIAL_SIZE_MAX,
        unread_size_max: int = UNREAD_SIZE_MAX,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
        tls: ServerTls | None = None,
        strangers: StrangerGate | None = None,
        is_own_machine_trusted: bool = True,
    ) -> None:
        """Set the limits; `start` listens. Without `tls` only cleartext is accepted; `strangers` limits unknown users."""
        self.is_own_machine_trusted = is_own_machine_trusted
        self.dispatcher, self.clock = dispatcher, clock
        self.tasks = Tasks("server")
        self.turn = Turn(dispatcher, clock)
        self.bad_frames = 0
        self.half_frames = HeldBytes(
            "half-received frames", partial_size_max, lambda peer: peer.partial_size, clock
        )
        self.unread_answers = HeldBytes(
            "answers that it does not read", unread_size_max, Peer.unread_size, clock
        )
        self.unread_answers.on_closed = self.turn.cut
        self._idle_seconds_max = idle_seconds_max
        self._tls = tls
        self.strangers = strangers
        self._newcomers: OrderedDict[Peer, float] = OrderedDict()  # First byte due by.
        self._attaching = Tasks("accept")
        self._connections = Connections(
            connections_max, clock, of_network_max=connections_per_address_max
        )
        self._end_look: Callable[[], object] | None = None  # Cancels the next check.
        self._look_at = 0.0  # Time of it, monotonic seconds.
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._bound, self._listening = list[Bound](), list[Bound]()

    @property
    def peers(self) -> frozenset[Peer]:
        """The open connections."""
        return frozenset(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listen on an address and return its port, which the system chooses if `port` is 0.

        May be called again for further addresses (a broker's second port).

        Raises:
            NetError: Listening failed; the message names the address and the reason.
        """
        bound = self.bind(host, port)
        await self.serve()
        return bound

    def bind(self, host: str, port: int) -> int:
        """Reserve an address without listening yet; return the port for callers that need it beforehand.

        Raises:
            NetError: As `start`.
        """
        try:
            bound = loop_network().bind(host, port)
        except OSError as error:
            raise NetError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; "
                "is another broker or nameserver running there?"
            ) from error
        self._bound.append(bound)
        return bound.port

    async def serve(self) -> None:
        """Accept connections at every reserved address."""
        if not self._listening:
            self._connections.limit_to_descriptors()
            self._loop = asyncio.get_running_loop()
            self._look_by(_IDLE_SCAN_SECONDS)
            self.half_frames.on_first = lambda: self._look_by(_IDLE_SCAN_SECONDS)
            if self._tls is not None:
                self.tasks.spawn(follow_certificate(self._tls), "certificate")
        while self._bound:
            bound = self._bound.pop(0)
            self._listening.append(bound)
            bound.listen(self._accepted)

    async def close(self) -> None:
        """Stop listening, close every connection and wait until they are gone."""
        for bound in (*self._bound, *self._listening):
            bound.close()
        self._bound.clear()
        self._listening.clear()
        await self._attaching.close()
        for peer in self._connections:
            peer.close()
        await self._wait_gone()
        for peer in self._connections:
            peer.abort()  # It does not read its answers.
        await self._wait_gone()
        await self.dispatcher.close()
        for end in (self._end_look, self._end_greeting):
            if end is not None:
                end()
        self._newcomers.clear()
        await self.tasks.close()

    async def _wait_gone(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS_MAX):
                await self._all_gone.wait()

    def _accepted(self, accepted: Accepted) -> None:
        peer = Peer(self, accepted.remote, accepted.local_ip)
        if not self._connections.admit(peer, accepted.number):
            accepted.close()
            return
        self._all_gone.clear()
        self._expect_word(peer)
        self._attaching.spawn(self._connect(peer, accepted), "accept")

    def _expect_word(self, peer: Peer) -> None:
        """Close a new connection that sends nothing for FIRST_BYTE_SECONDS."""
        self._newcomers[peer] = self.clock.monotonic() + FIRST_BYTE_SECONDS
        if self._end_greeting is None:
            self._end_greeting = beat_later(FIRST_BYTE_SECONDS, self._greet)

    def _greet(self) -> None:
        self._end_greeting = None
        now, newcomers = self.clock.monotonic(), self._newcomers
        while newcomers:
            peer, due = next(iter(newcomers.items()))
            if due > now:
                self._end_greeting = beat_later(due - now, self._greet)
                break
            del newcomers[peer]
            if not (peer.has_read or peer.has_spoken):
                peer.drop(f"it said nothing for {FIRST_BYTE_SECONDS:.0f} s")

    async def _connect(self, peer: Peer, accepted: Accepted) -> None:
        try:
            await accepted.attach(peer, self._tls)
        except (NetError, OSError) as error:
            # The transport was never made, or reports its end to the peer itself.
            self.forget(peer)
            accepted.close()
            _log.info("%s is not served: %s", peer.address, error)
        except BaseException:
            self.forget(peer)
            accepted.close()
            raise

    # --- called by peers

    def forget(self, peer: Peer) -> None:
        """Remove a closed connection."""
        self._connections.forget(peer)
        self._newcomers.pop(peer, None)
        if not self._connections:
            self._all_gone.set()

    def count_bad_frame(self) -> None:
        """Count a refused frame."""
        self.bad_frames += 1

    def _look_by(self, seconds: float) -> None:
        """Check for silent connections within `seconds`, or earlier if already scheduled."""
        due = self.clock.monotonic() + seconds
        if self._end_look is not None:
            if self._look_at <= due:
                return
            self._end_look()
        self._look_at = due
        self._end_look = beat_later(seconds, self._look_around)

    def _look_around(self) -> None:
        self._end_look = None
        try:
            self.close_silent()
        finally:
            # Check often while frames are incomplete; otherwise only for the idle limit.
            is_any_half = bool(self.half_frames)
            seconds = (
                _IDLE_SCAN_SECONDS if is_any_half else self._idle_seconds_max * _IDLE_SCAN_SHARE
            )
            self._look_by(seconds)

    def close_silent(self) -> None:
        """Close connections that were silent or stuck within a frame for too long."""
        self.half_frames.close_late(HEADER_SECONDS, lambda peer: not peer.is_header_whole)
        self.half_frames.close_stuck()
        self._connections.look()
        for peer in self._connections.silent_for(self._idle_seconds_max):
            peer.drop(f"silent for {self._idle_seconds_max:.0f} s")
