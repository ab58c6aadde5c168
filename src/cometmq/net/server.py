"""Accepts connections and bounds what they may take: their number, their idle time, their memory."""

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
# Frames that have begun and not ended, over all connections, bytes.
PARTIAL_SIZE_MAX = 56 << 20
# Answers that peers have not read, and requests that wait for that, over all connections, bytes.
UNREAD_SIZE_MAX = 32 << 20
# Both sides close a silent connection after 120 s (serverChannelMaxIdleTimeSeconds).
IDLE_SECONDS_MAX = 120
_IDLE_SCAN_SECONDS = 5
# How long a connection may say nothing after it was accepted, and take for the first header of a frame.
FIRST_BYTE_SECONDS = 15.0
HEADER_SECONDS = 10.0
# Of the time that a connection may be silent: so much later than that it is closed at most.
_IDLE_SCAN_SHARE = 0.25
# How long closing waits for answers that are on their way.
_CLOSE_SECONDS_MAX = 2


class Server:
    """Addresses that are listened on, and the peers that connect to them.

    Attributes:
        dispatcher: who handles requests.
        clock: time.
        tasks: background tasks of the server.
        turn: what its peers brought, handled together.
        bad_frames: frames refused since the start.
        half_frames: frames that have begun and not ended.
        unread_answers: answers that peers have not read.
        is_own_machine_trusted: whether a peer of this machine is more than one of another machine.
    """

    _end_greeting: Callable[[], object] | None = None  # Takes the timer for newcomers back.

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
        """Nothing listens yet; see `start`. Without `tls` it is plain; `strangers` bound those who have not signed."""
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
        self._newcomers: OrderedDict[Peer, float] = OrderedDict()  # By when each speaks.
        self._attaching = Tasks("accept")
        self._connections = Connections(
            connections_max, clock, of_network_max=connections_per_address_max
        )
        self._end_look: Callable[[], object] | None = None  # Takes the next look back.
        self._look_at = 0.0  # When that is due, monotonic seconds.
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._bound, self._listening = list[Bound](), list[Bound]()

    @property
    def peers(self) -> frozenset[Peer]:
        """The connections that are open now."""
        return frozenset(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port, which differs from `port` where that is 0.

        May be called again for further addresses (a broker's second port).

        Raises:
            NetError: the address cannot be listened on; the message says which and why.
        """
        bound = self.bind(host, port)
        await self.serve()
        return bound

    def bind(self, host: str, port: int) -> int:
        """Take an address without listening yet; its port, for those who must know it before.

        Raises:
            NetError: as `start`.
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
        """Accept connections at every address that was bound."""
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
        """Make a peer of an accepted connection, where there is room for it."""
        peer = Peer(self, accepted.remote, accepted.local_ip)
        if not self._connections.admit(peer, accepted.number):
            accepted.close()
            return
        self._all_gone.clear()
        self._expect_word(peer)
        self._attaching.spawn(self._connect(peer, accepted), "accept")

    def _expect_word(self, peer: Peer) -> None:
        """Close a newcomer that says nothing for 15 s."""
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
        """Let a peer have what comes on an accepted connection."""
        try:
            await accepted.attach(peer, self._tls)
        except (NetError, OSError) as error:
            # Its transport never was, or tells the peer of its end by itself.
            self.forget(peer)
            accepted.close()
            _log.info("%s is not served: %s", peer.address, error)
        except BaseException:
            self.forget(peer)
            accepted.close()
            raise

    # --- asked by peers

    def forget(self, peer: Peer) -> None:
        """The connection is gone."""
        self._connections.forget(peer)
        self._newcomers.pop(peer, None)
        if not self._connections:
            self._all_gone.set()

    def count_bad_frame(self) -> None:
        """A frame was refused."""
        self.bad_frames += 1

    def _look_by(self, seconds: float) -> None:
        """Look for silent connections by then, or sooner where that was due anyway."""
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
            # Often while frames are half here; else when somebody may have been silent for long.
            is_any_half = bool(self.half_frames)
            seconds = (
                _IDLE_SCAN_SECONDS if is_any_half else self._idle_seconds_max * _IDLE_SCAN_SHARE
            )
            self._look_by(seconds)

    def close_silent(self) -> None:
        """Close connections that have been silent or in the middle of a frame too long; called every few seconds."""
        self.half_frames.close_late(HEADER_SECONDS, lambda peer: not peer.is_header_whole)
        self.half_frames.close_stuck()
        self._connections.look()
        for peer in self._connections.silent_for(self._idle_seconds_max):
            peer.drop(f"silent for {self._idle_seconds_max:.0f} s")
