"""Registers the broker's topics at every nameserver: at the start, at each change, by default every 30 s.

Each nameserver has its own background job, so one that is down delays no other. A change wakes all jobs; changes during
a registration are sent together in the next round. A lost nameserver is retried every few seconds: it has forgotten the
broker, or soon will.

While there are few topics, each registration has all of them. Of many, up to 200 changed ones are usually registered
one by one (REGISTER_TOPIC_IN_NAMESRV 217, as Java does with enableSingleTopicRegister). All topics that fit into a
frame are sent again within two periods; a large body is encoded in a thread. Follows BrokerController.registerBrokerAll
and BrokerOuterAPI of RocketMQ 5.3.3.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

from cometmq.broker.registration.nameserver_calls import AskNameservers, answer_of
from cometmq.broker.registration.registration_body import RegistrationBody, make_body
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.codec.bodies.register import body_crc
from cometmq.codec.bodies.route import encode_topic_route
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.nameserver import (
    BrokerIdentity,
    RegisterBroker,
    RegisterBrokerResponse,
)
from cometmq.codec.headers.topic import TopicRequest
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.route import QueueData, TopicRoute
from cometmq.model.topic import TopicConfig
from cometmq.steps.runner import KeptMachine, Timers
from cometmq.steps.steps import Done, Steps, called_back, elsewhere

_log = logging.getLogger(__name__)

# Starts a background job, named for the log, and returns it, so that it can be woken (`steps.on_loop.Machines.keep`).
KeepMachine = Callable[[str, Callable[[], Steps[float]]], KeptMachine]

# Bounds of registerNameServerPeriod, as in BrokerController, ms.
PERIOD_MS_MIN = 10_000
PERIOD_MS_MAX = 60_000
# Delay before a lost nameserver is retried, seconds; a refused connection costs little.
_LOST_SECONDS = 1.0
_RETRY_SECONDS = 3.0
# Less than the 5 s that admin tools wait for the answer to a change.
CHANGE_SECONDS_MAX = 3.0
# Less than the 3 s that producers wait for the answer to a send.
_NEW_TOPIC_SECONDS_MAX = 1.0
_UNREGISTER_TIMEOUT_MS = 3000  # BrokerOuterAPI.unregisterBroker.
# Up to this many topics, each change sends all of them, which takes 5 ms.
WHOLE_MAX = 1000
ATTRIBUTES_MAX = 1 << 20  # Characters.
# Largest number of changed topics that are sent one by one; otherwise all topics are sent.
SINGLES_MAX = 200


class Registrar:
    """The registration of a broker's topics at its nameservers, whose answers name a slave's master.

    Attributes:
        master: A slave's master as nameservers last named it; its addresses are empty if none did.
        on_master: Called with `master` when it has changed.
        on_registered: Called with a nameserver when it has answered a registration of all topics, or that failed.
        is_wanted: Returns whether clients may use this broker now; if not, it is unregistered. By default True.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        address: str,
        topics: Callable[[], TopicTable],
        *,
        ha_address: str,
        ask: AskNameservers,
        timers: Timers,
    ) -> None:
        """Register a broker, which clients reach at `address`, at the nameservers of its settings, from `start` on.

        `topics` returns the topics and their version, and must not change topics without a new version; `ha_address` is
        the address from which slaves copy the log; `ask` sends requests, and its owner closes it.
        """
        self.master = RegisterBrokerResponse()
        self.on_master: list[Callable[[RegisterBrokerResponse], None]] = []
        self.on_registered: list[Callable[[str], None]] = []
        self.is_wanted: Callable[[], bool] = lambda: True
        self.identity = BrokerIdentity(
            settings.broker_name, address, settings.cluster_name, settings.broker_id
        )
        # The pause between registrations without changes.
        self.period_seconds = (
            min(max(settings.register_period_ms, PERIOD_MS_MIN), PERIOD_MS_MAX) / 1000
        )
        self.timeout_ms = settings.register_timeout_ms
        self.timers = timers
        self.ask = ask
        self._is_compressed = settings.is_registration_compressed
        self._topics = topics
        self._ha_address = ha_address
        self._links = [_Link(each, self) for each in settings.nameserver_addresses]
        self._body: tuple[DataVersion, RegistrationBody] | None = None
        # Waiters for a body that is being encoded, by its version.
        self._making: dict[DataVersion, list[Done]] = {}

    def start(self, keep: KeepMachine) -> Steps[None]:
        """Register at all nameservers by starting jobs; done when each has answered or failed, or at the timeout."""
        rounds = [link.ask_round() for link in self._links]
        for link in self._links:
            link.begin(keep)
        yield from _all_of(rounds, self.timeout_ms / 1000)

    def changed(self, topic: str | None = None) -> None:
        """Register soon, because one topic or (None) any topics have changed."""
        for link in self._links:
            link.note(topic)
            link.wake()

    def register_at(self, nameserver: str) -> None:
        """Register all topics at one nameserver soon."""
        for link in self._links:
            if link.address == nameserver:
                link.note(None)
                link.wake()

    def is_known(self) -> bool:
        """Return whether any nameserver accepted this broker's last registration there."""
        return any(link.is_up for link in self._links)

    def register(self, seconds_max: float = CHANGE_SECONDS_MAX) -> Steps[None]:
        """Register now; done when the nameservers that accepted the last registration answered or failed, or at the timeout."""
        rounds = [(link.is_up, link.ask_round()) for link in self._links]
        for link in self._links:
            link.wake()
        up = [told for is_up, told in rounds if is_up]
        yield from _all_of(up, seconds_max)

    def known(self) -> Steps[None]:
        """Wait up to 1 s until the nameservers that accepted the last registration have answered those of all changes."""
        rounds = [link.round_of_changes() for link in self._links if link.is_up]
        yield from _all_of(
            [each for each in rounds if each is not None], _NEW_TOPIC_SECONDS_MAX
        )

    def leave(self) -> Steps[None]:
        """Unregister from nameservers that accepted the last registration, and wait up to 3 s.

        The background jobs must have been stopped before.
        """
        rounds = []
        for link in self._links:
            if link.is_up:
                told = _Round()
                rounds.append(told)
                link.leave(told.end)
        yield from _all_of(rounds, _UNREGISTER_TIMEOUT_MS / 1000)

    # --- called by links

    def tell(self, address: str) -> Steps[None]:
        """Register all topics at one nameserver; raise CometError if it cannot be reached, does not answer or refuses.

        Its answer updates `master`.
        """
        body = yield from self._encoded(self._topics())
        header = RegisterBroker(
            broker_name=self.identity.broker_name,
            broker_addr=self.identity.broker_addr,
            cluster_name=self.identity.cluster_name,
            broker_id=self.identity.broker_id,
            ha_server_addr=self._ha_address,
            compressed=body.is_compressed,
            body_crc32=body_crc(body.content),
            enable_acting_master=False,
        )
        try:
            answer = yield from self._call(
                address, RequestCode.REGISTER_BROKER, encode_fields(header), body.content
            )
        finally:
            for told in self.on_registered:
                told(address)
        self._master_told(decode_fields(RegisterBrokerResponse, answer.fields))

    def _master_told(self, master: RegisterBrokerResponse) -> None:
        """Note the master from an answer, and call `on_master` if it changed; an answer without one changes nothing."""
        known = self.master
        news = RegisterBrokerResponse(
            ha_server_addr=master.ha_server_addr or known.ha_server_addr,
            master_addr=master.master_addr or known.master_addr,
        )
        if news != known:
            self.master = news
            for told in self.on_master:
                told(news)

    def _encoded(self, table: TopicTable) -> Steps[RegistrationBody]:
        """Return the body, encoded in a thread if it is large; the last one is kept for the other nameservers."""
        version = table.version
        if version in self._making:
            yield from called_back(self._making[version].append)
        if self._body is not None and self._body[0] == version:
            return self._body[1]
        make = partial(make_body, table, is_compressed=self._is_compressed)
        if not _is_large(table):
            body = make()
        else:
            self._making[version] = []
            try:
                body = yield from elsewhere(make)
            finally:
                waiting = self._making.pop(version)
                for done in waiting:
                    self.timers.call_later(0, partial(done, None, None))
        self._body = (version, body)
        if body.left_out:
            _log.error(
                "%d of %d topics do not fit into a registration, so nameservers do not know them; "
                "delete unused topics",
                body.left_out, len(table.topics),
            )  # fmt: skip
        return body

    def singles(self, names: Collection[str]) -> list[TopicConfig] | None:
        """Return the existing topics among `names`, to be registered one by one; None if all topics must be sent."""
        if len(names) > SINGLES_MAX:
            return None
        topics = self._topics().topics
        if len(topics) <= WHOLE_MAX:
            return None
        return [topics[name] for name in names if name in topics]

    def tell_one(self, address: str, config: TopicConfig) -> Steps[None]:
        """Register one topic at a nameserver that knows this broker; raise CometError as `tell` does."""
        queues = QueueData(
            self.identity.broker_name,
            config.read_queues,
            config.write_queues,
            config.perm,
            config.sys_flag,
        )
        yield from self._call(
            address,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV,
            encode_fields(TopicRequest(config.name)),
            encode_topic_route(TopicRoute((queues,), ())),
        )

    def _call(
        self, address: str, code: RequestCode, fields: dict[str, str], body: bytes = b""
    ) -> Steps[PeerAnswer]:
        """Send a request to a nameserver; raise CometError if it cannot be reached, does not answer or refuses."""
        answer = yield from answer_of(
            self.ask, address, code, fields, body, timeout_ms=self.timeout_ms
        )
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", address)
        return answer


class _Round:
    """A registration that is in progress or requested.

    Attributes:
        is_over: Whether it has ended, successfully or not.
        on_end: Called when it has ended.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.on_end: list[Callable[[], None]] = []

    def end(self) -> None:
        self.is_over = True
        for tell in self.on_end:
            tell()


def _all_of(rounds: Sequence[_Round], seconds: float) -> Steps[None]:
    """Wait until these rounds are over, or until a timeout."""

    def begin(done: Done) -> None:
        def look() -> None:
            if all(each.is_over for each in rounds):
                done(None, None)

        for each in rounds:
            each.on_end.append(look)

    if any(not each.is_over for each in rounds):
        with suppress(TimeoutError):
            yield from called_back(begin, seconds)


class _Link:
    """The background job that keeps the broker registered at one nameserver.

    Attributes:
        is_up: Whether the nameserver accepted the last registration.
    """

    def __init__(self, address: str, registrar: Registrar) -> None:
        self.address = address
        self.is_up = False
        self._registrar = registrar
        self._machine: KeptMachine | None = None
        self._is_watching = (
            False  # Whether `_lost` will be called when the connection is closed.
        )
        self._round: _Round | None = None  # The registration in progress.
        self._next_round: _Round | None = None  # The next round, if somebody waits for it.
        self._has_complained = False
        self._changed: set[str] | None = None  # Topics changed since the last round; None: any.
        self._whole_at = 0.0  # Time of the last registration of all topics, monotonic seconds.

    def begin(self, keep: KeepMachine) -> None:
        self._machine = keep(self.address, self._step)

    def note(self, topic: str | None) -> None:
        """Note for the next registration that one topic, or (None) any topics, changed."""
        if topic is None:
            self._changed = None
        elif self._changed is not None and len(self._changed) <= SINGLES_MAX:
            self._changed.add(topic)

    def ask_round(self) -> _Round:
        """Return the next registration, so that the caller can wait for its end."""
        if self._next_round is None:
            self._next_round = _Round()
        return self._next_round

    def round_of_changes(self) -> _Round | None:
        """Return the registration that has the last noted change, or None if it was answered or failed."""
        is_waiting = self._changed is None or bool(self._changed)
        return self.ask_round() if is_waiting else self._round

    def wake(self) -> None:
        """Register now, or after the registration in progress."""
        if self._machine is not None:
            self._machine.wake()

    def _step(self) -> Steps[float]:
        """Register once; return the seconds until the next registration, unless the job is woken earlier."""
        self._round, self._next_round = self.ask_round(), None
        try:
            yield from self._register()
        finally:
            current, self._round = self._round, None
            current.end()
        if not self.is_up:
            return _RETRY_SECONDS
        if not self._is_watching:
            # One callback per connection, not one per period.
            self._is_watching = True
            self._registrar.ask.when_lost(self.address, self._lost)
        return self._registrar.period_seconds

    def _lost(self) -> None:
        self._is_watching = False
        if self._machine is not None:
            self._machine.wake_at(self._registrar.timers.monotonic() + _LOST_SECONDS)

    def _register(self) -> Steps[None]:
        if not self._registrar.is_wanted():
            if self.is_up:
                yield from called_back(lambda done: self.leave(partial(done, None, None)))
            self.is_up, self._changed = False, None
            return
        names, self._changed = self._changed, set()
        try:
            if names is None or not (yield from self._tell_singly(names)):
                self._whole_at = self._registrar.timers.monotonic()
                yield from self._registrar.tell(self.address)
        except CometError as error:
            if self.is_up or not self._has_complained:
                _log.warning("not registered at nameserver %s: %s", self.address, error)
            self.is_up = False
            self._changed = None
            self._has_complained = True
        else:
            if not self.is_up:
                _log.info("registered at nameserver %s", self.address)
            self.is_up = True

    def _tell_singly(self, names: set[str]) -> Steps[bool]:
        """Register these topics one by one; return False if all topics must be sent, for example as one was refused."""
        registrar = self._registrar
        due = self._whole_at + registrar.period_seconds
        if not self.is_up or not names or registrar.timers.monotonic() >= due:
            return False
        configs = registrar.singles(names)
        if configs is None or not registrar.ask.is_connected(self.address):
            return False
        try:
            for config in configs:
                yield from registrar.tell_one(self.address, config)
        except BrokerRefused:
            return False  # Nameservers before 5.0 do not know the request.
        return True

    def leave(self, told: Callable[[], None]) -> None:

        def done(answer: PeerAnswer | None, error: BaseException | None) -> None:
            why: object = error
            if answer is not None and answer.code != ResponseCode.SUCCESS:
                why = BrokerRefused(answer.code, answer.remark or "", self.address)
            if why is not None:
                _log.warning("unregistering at nameserver %s failed: %s", self.address, why)
            told()

        self._registrar.ask(
            self.address,
            RequestCode.UNREGISTER_BROKER,
            encode_fields(self._registrar.identity),
            b"",
            timeout_ms=min(self._registrar.timeout_ms, _UNREGISTER_TIMEOUT_MS),
            done=done,
        )


def _is_large(table: TopicTable) -> bool:
    if len(table.topics) > WHOLE_MAX:
        return True
    attributes = (config.attributes for config in table.topics.values() if config.attributes)
    return sum(len(value) for each in attributes for value in each.values()) > ATTRIBUTES_MAX
