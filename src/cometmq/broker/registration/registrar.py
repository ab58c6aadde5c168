"""Tells every nameserver what topics this broker has: at the start, at each change, every 30 s.

A machine for each nameserver, so one that is down delays nobody. A change wakes all of
them; changes that come while one registers are told together in its next round. A nameserver that
was lost is tried again every few seconds: it forgot everything, or soon will.

All topics are told each time, as long as they are few. Of many a change tells those that changed,
one by one (REGISTER_TOPIC_IN_NAMESRV 217, as Java does with enableSingleTopicRegister), and
all of them go once a period; their body is made in a thread.

Follows BrokerController.registerBrokerAll and BrokerOuterAPI of RocketMQ 5.3.3.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from cometmq.broker.loop.runner import KeptMachine, Timers
from cometmq.broker.loop.steps import Steps, called_back, elsewhere
from cometmq.broker.registration.nameserver_calls import AskNameservers
from cometmq.broker.registration.registration_body import RegistrationBody, make_body
from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.bodies.register import body_crc
from cometmq.codec.bodies.route import encode_topic_route
from cometmq.codec.bodies.topic_config import (
    TopicTable,
    decode_data_version,
    encode_data_version,
)
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.nameserver import (
    BrokerIdentity,
    DataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
)
from cometmq.codec.headers.topic import TopicRequest
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.frozen import dataclass
from cometmq.model.route import QueueData, TopicRoute
from cometmq.model.topic import TopicConfig

_log = logging.getLogger(__name__)

# BrokerController clamps registerNameServerPeriod to these, ms.
PERIOD_MS_MIN = 10_000
PERIOD_MS_MAX = 60_000
# How soon a lost nameserver is tried again, seconds; a refused connection costs little.
_LOST_SECONDS = 1.0
_RETRY_SECONDS = 3.0
# Below the 5 s that admin tools wait for the answer to a change.
CHANGE_SECONDS_MAX = 3.0
_UNREGISTER_TIMEOUT_MS = 3000  # BrokerOuterAPI.unregisterBroker.
# Up to so many topics all are told of each change, which takes 5 ms.
WHOLE_MAX = 1000
ATTRIBUTES_MAX = 1 << 20  # Characters.
# Changed topics that are told one by one; of more, all topics are told.
SINGLES_MAX = 200


@dataclass(frozen=True, slots=True)
class RegistrarSettings:
    """The settings of a broker's registration.

    Attributes:
        period_ms: pause between registrations (registerNameServerPeriod).
        timeout_ms: how long a nameserver may take to answer (registerBrokerTimeoutMills).
        is_compressed: send the topics compressed (compressedRegister).
        is_forced: register even where nothing changed (forceRegister).
    """

    period_ms: int = 30_000
    timeout_ms: int = 24_000
    is_compressed: bool = False
    is_forced: bool = True

    @property
    def period_seconds(self) -> float:
        """The pause, within the bounds that RocketMQ keeps."""
        return min(max(self.period_ms, PERIOD_MS_MIN), PERIOD_MS_MAX) / 1000


class KeepMachine(Protocol):
    """Takes a machine's step again and again (`loop.on_loop.Machines.keep`)."""

    def __call__(self, name: str, step: Callable[[], Steps[float]]) -> KeptMachine:
        """Begin at once; gives what wakes the machine."""
        ...


class Registrar:
    """The broker's side of registration.

    Attributes:
        master: what a nameserver last said about this slave's master; empty for a master.
        order_topics: the order configuration by topic, as the nameservers last sent it.
        on_master: each is told `master` when that has changed.
        on_registered: each is called with a nameserver that has taken or refused a registration of all topics.
    """

    def __init__(
        self,
        nameservers: Sequence[str],
        identity: BrokerIdentity,
        topics: Callable[[], TopicTable],
        *,
        ha_address: str,
        ask: AskNameservers,
        timers: Timers,
        settings: RegistrarSettings | None = None,
    ) -> None:
        """Nothing is told yet; see `start`.

        Args:
            nameservers: addresses, "host:port" each.
            identity: who this broker is.
            topics: gives the topics and their version; its topics must not change under one
                version.
            ha_address: where slaves fetch from.
            ask: connections; the registrar does not close them.
            timers: all time.
            settings: how to register.
        """
        self.master = RegisterBrokerResponse()
        self.order_topics: Mapping[str, str] = {}
        self.on_master: list[Callable[[RegisterBrokerResponse], None]] = []
        self.on_registered: list[Callable[[str], None]] = []
        self.identity = identity
        self.settings = settings or RegistrarSettings()
        self.timers = timers
        self.ask = ask
        self._topics = topics
        self._ha_address = ha_address
        self._links = [_Link(address, self) for address in nameservers]
        self._body: tuple[DataVersion, RegistrationBody] | None = None
        # Who waits for a body that is being made, by its version.
        self._making: dict[
            DataVersion, list[Callable[[object, BaseException | None], None]]
        ] = {}

    def start(self, keep: KeepMachine) -> Steps[None]:
        """Register everywhere, and keep it so; over when each nameserver has answered or failed."""
        rounds = [link.ask_round() for link in self._links]
        for link in self._links:
            link.begin(keep)
        yield from self._all_of(rounds, seconds=self.settings.timeout_ms / 1000)

    def changed(self, topic: str | None = None) -> None:
        """The topics changed, or just one of them: tell it soon."""
        for link in self._links:
            link.note(topic)
            link.wake()

    def register_at(self, nameserver: str) -> None:
        """Register at one nameserver soon, with all topics."""
        for link in self._links:
            if link.address == nameserver:
                link.note(None)
                link.wake()

    def is_known(self) -> bool:
        """Whether any nameserver took the last registration."""
        return any(link.is_up for link in self._links)

    def register(self) -> Steps[None]:
        """Tell of a change now; over when the nameservers that are up know it.

        One that does not answer holds nobody up for more than CHANGE_SECONDS_MAX.
        """
        rounds = [(link.is_up, link.ask_round()) for link in self._links]
        for link in self._links:
            link.wake()
        up = [told for is_up, told in rounds if is_up]
        yield from self._all_of(up, seconds=CHANGE_SECONDS_MAX)

    def leave(self) -> Steps[None]:
        """Leave every nameserver that is up, all at once; nothing is kept told any more."""
        rounds = []
        for link in self._links:
            if link.is_up:
                told = _Round()
                rounds.append(told)
                link.leave(told.end)
        yield from self._all_of(rounds, seconds=_UNREGISTER_TIMEOUT_MS / 1000)

    def _all_of(self, rounds: "Sequence[_Round]", *, seconds: float) -> Steps[None]:
        """Wait until these registrations are over, or until a timeout."""
        if any(not each.is_over for each in rounds):
            yield from called_back(partial(_call_back, rounds, self.timers, seconds))

    # --- asked by links

    def tell(self, address: str) -> Steps[None]:
        """Register at one nameserver.

        Raises:
            CometError: it cannot be reached, does not answer or refuses.
        """
        table = self._topics()
        if not self.settings.is_forced and not (
            yield from self._is_news(address, table.version)
        ):
            return
        body = yield from self._encoded(table)
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
        if answer.body:
            self.order_topics = decode_kv_table(answer.body)

    def _master_told(self, master: RegisterBrokerResponse) -> None:
        """A nameserver named the master; one that does not know it takes nothing back."""
        known = self.master
        news = RegisterBrokerResponse(
            ha_server_addr=master.ha_server_addr or known.ha_server_addr,
            master_addr=master.master_addr or known.master_addr,
        )
        if news != known:
            self.master = news
            for told in self.on_master:
                told(news)

    def _is_news(self, address: str, version: DataVersion) -> Steps[bool]:
        """Ask a nameserver whether it has other topics of ours than we have; a sign of life, too."""
        answer = yield from self._call(
            address,
            RequestCode.QUERY_DATA_VERSION,
            encode_fields(self.identity),
            encode_data_version(version),
        )
        is_changed = decode_fields(DataVersionResponse, answer.fields).changed
        return is_changed or not answer.body or decode_data_version(answer.body) != version

    def _encoded(self, table: TopicTable) -> Steps[RegistrationBody]:
        """The body; made once for all nameservers, and in a thread where it is large."""
        version = table.version
        if version in self._making:
            yield from called_back(self._making[version].append)
        if self._body is not None and self._body[0] == version:
            return self._body[1]
        make = partial(make_body, table, is_compressed=self.settings.is_compressed)
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
                "%d of %d topics are too many for a registration: nameservers do not hear of them; "
                "delete topics that nobody uses",
                body.left_out, len(table.topics),
            )  # fmt: skip
        return body

    def singles(self, names: Collection[str]) -> list[TopicConfig] | None:
        """The topics to register one by one; None where all have to be told."""
        if len(names) > SINGLES_MAX or not self.settings.is_forced:
            return None
        topics = self._topics().topics
        if len(topics) <= WHOLE_MAX:
            return None
        return [topics[name] for name in names if name in topics]

    def tell_one(self, address: str, config: TopicConfig) -> Steps[None]:
        """Tell one nameserver, which knows this broker, of one topic.

        Raises:
            CometError: it cannot be reached, does not answer or refuses.
        """
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
        """Ask a nameserver.

        Raises:
            CometError: it cannot be reached, does not answer or refuses.
        """
        timeout_ms = self.settings.timeout_ms
        answer: PeerAnswer = yield from called_back(
            lambda done: self.ask(address, code, fields, body, timeout_ms=timeout_ms, done=done)
        )
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", address)
        return answer


class _Round:
    """A registration that is under way or asked for.

    Attributes:
        is_over: whether it has ended, well or badly.
        on_end: each is called then.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.on_end: list[Callable[[], None]] = []

    def end(self) -> None:
        """Tell those who wait that the round is over."""
        self.is_over = True
        for tell in self.on_end:
            tell()


def _call_back(
    rounds: Sequence[_Round],
    timers: Timers,
    seconds: float,
    done: Callable[[None, None], None],
) -> None:
    """Call `done` once these are over, or so many seconds later."""
    waits = True

    def end() -> None:
        nonlocal waits
        if waits:
            waits = False
            take_back()
            done(None, None)

    def look() -> None:
        if all(each.is_over for each in rounds):
            end()

    take_back = timers.call_later(seconds, end)
    for each in rounds:
        each.on_end.append(look)


class _Link:
    """Keeps one nameserver told; a machine.

    Attributes:
        address: of the nameserver.
        is_up: whether it took our last registration.
    """

    def __init__(self, address: str, registrar: Registrar) -> None:
        self.address = address
        self.is_up = False
        self._registrar = registrar
        self._machine: KeptMachine | None = None
        self._is_watching = False  # Told when the connection is lost.
        self._next_round: _Round | None = None  # The one that begins next.
        self._has_complained = False
        self._changed: set[str] | None = None  # Since the last round; None: anything.
        self._whole_at = 0.0  # When all topics were told last, monotonic seconds.

    def begin(self, keep: KeepMachine) -> None:
        """Take the first step soon."""
        self._machine = keep(self.address, self._step)

    def note(self, topic: str | None) -> None:
        """A topic changed; None is any."""
        if topic is None:
            self._changed = None
        elif self._changed is not None and len(self._changed) <= SINGLES_MAX:
            self._changed.add(topic)

    def ask_round(self) -> _Round:
        """The round that begins next."""
        if self._next_round is None:
            self._next_round = _Round()
        return self._next_round

    def wake(self) -> None:
        """Begin a registration now, or behind the one that is under way."""
        if self._machine is not None:
            self._machine.wake()

    def _step(self) -> Steps[float]:
        """Register; asked for, when the period is over, and when the nameserver was lost."""
        current, self._next_round = self._next_round, None
        try:
            yield from self._register()
        finally:
            if current is not None:
                current.end()
        if not self.is_up:
            return _RETRY_SECONDS
        if not self._is_watching:
            # One for as long as the connection stands, and not one for each period.
            self._is_watching = True
            self._registrar.ask.when_lost(self.address, self._lost)
        return self._registrar.settings.period_seconds

    def _lost(self) -> None:
        self._is_watching = False
        if self._machine is not None:
            self._machine.wake_at(self._registrar.timers.monotonic() + _LOST_SECONDS)

    def _register(self) -> Steps[None]:
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
        """Register these topics alone; False: all must be told."""
        registrar = self._registrar
        due = self._whole_at + registrar.settings.period_seconds
        if not self.is_up or not names or registrar.timers.monotonic() >= due:
            return False
        configs = registrar.singles(names)
        if configs is None or not registrar.ask.is_connected(self.address):
            return False
        try:
            for config in configs:
                yield from registrar.tell_one(self.address, config)
        except BrokerRefused:
            return False  # One of before 5.0 does not know the request.
        return True

    def leave(self, told: Callable[[], None]) -> None:
        """Tell the nameserver that this broker goes."""

        def done(answer: PeerAnswer | None, error: BaseException | None) -> None:
            why: object = error
            if answer is not None and answer.code != ResponseCode.SUCCESS:
                why = BrokerRefused(answer.code, answer.remark or "", self.address)
            if why is not None:
                _log.warning("not unregistered at nameserver %s: %s", self.address, why)
            told()

        settings = self._registrar.settings
        self._registrar.ask(
            self.address,
            RequestCode.UNREGISTER_BROKER,
            encode_fields(self._registrar.identity),
            b"",
            timeout_ms=min(settings.timeout_ms, _UNREGISTER_TIMEOUT_MS),
            done=done,
        )


def _is_large(table: TopicTable) -> bool:
    """Whether making a body of the topics takes long."""
    if len(table.topics) > WHOLE_MAX:
        return True
    attributes = (config.attributes for config in table.topics.values() if config.attributes)
    return sum(len(value) for each in attributes for value in each.values()) > ATTRIBUTES_MAX
