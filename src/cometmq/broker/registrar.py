"""Tells every nameserver what topics this broker has: at the start, at each change, every 30 s.

Each nameserver has a task of its own, so one that is down delays nobody. A change wakes all of
them; changes that come while one registers are told together in its next round. A nameserver that
was lost is tried again every few seconds: it forgot everything, or soon will.

All topics are told each time, as long as they are few. Of many a change tells those that changed,
one by one (REGISTER_TOPIC_IN_NAMESRV 217, as Java does with enableSingleTopicRegister), and
all of them go once a period; their body is made in a thread.

Follows BrokerController.registerBrokerAll and BrokerOuterAPI of RocketMQ 5.3.3.

Next: cometmq.nameserver.handlers.registration
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from cometmq.broker.client_peer import PeerAnswer
from cometmq.broker.nameserver_calls import NameserverCalls
from cometmq.broker.registration_body import RegistrationBody, make_body
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
    """How a broker registers.

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


class BackgroundTasks(Protocol):
    """Tasks that are kept alive (`net.tasks.Tasks`)."""

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> object:
        """Run `work` in the background."""
        ...

    async def close(self) -> None:
        """End all of them."""
        ...


class Registrar:
    """The broker's side of registration.

    Attributes:
        master: what a nameserver last said about this slave's master; empty for a master.
        order_topics: the order configuration by topic, as the nameservers last sent it.
        on_master: each is told `master` when that has changed.
    """

    def __init__(  # noqa: PLR0913  Who it is, what it tells, to whom, and by what: each is one thing.
        self,
        nameservers: Sequence[str],
        identity: BrokerIdentity,
        topics: Callable[[], TopicTable],
        *,
        ha_address: str,
        calls: NameserverCalls,
        tasks: BackgroundTasks,
        settings: RegistrarSettings | None = None,
        pool: Executor | None = None,
    ) -> None:
        """Nothing is told yet; see `start`.

        Args:
            nameservers: addresses, "host:port" each.
            identity: who this broker is.
            topics: gives the topics and their version; its topics must not change under one
                version.
            ha_address: where slaves fetch from.
            calls: connections; the registrar does not close them.
            tasks: what keeps each nameserver told; closed with the registrar.
            settings: how to register.
            pool: where large bodies are made; without it that is done on the loop.
        """
        self.master = RegisterBrokerResponse()
        self.order_topics: Mapping[str, str] = {}
        self.on_master: list[Callable[[RegisterBrokerResponse], None]] = []
        self.identity = identity
        self.settings = settings or RegistrarSettings()
        self._topics = topics
        self._ha_address = ha_address
        self._calls = calls
        self._links = [_Link(address, self) for address in nameservers]
        self._tasks = tasks
        self._pool = pool
        self._body: tuple[DataVersion, asyncio.Future[RegistrationBody]] | None = None

    async def start(self) -> None:
        """Register everywhere; return when each nameserver has answered or failed."""
        rounds = [link.ask() for link in self._links]
        for link in self._links:
            self._tasks.spawn(link.run(), link.address)
        await _all_of(rounds, seconds=self.settings.timeout_ms / 1000)

    def changed(self, topic: str | None = None) -> None:
        """The topics changed, or just one of them: tell it soon."""
        for link in self._links:
            link.note(topic)
            link.ask()

    async def register(self) -> None:
        """Tell of a change now; return when the nameservers that are up know it.

        One that does not answer holds nobody up for more than CHANGE_SECONDS_MAX.
        """
        rounds = [(link.is_up, link.ask()) for link in self._links]
        await _all_of([done for is_up, done in rounds if is_up], seconds=CHANGE_SECONDS_MAX)

    async def close(self) -> None:
        """Leave every nameserver that is up."""
        await self._tasks.close()
        leaving = [link.leave() for link in self._links if link.is_up]
        await asyncio.gather(*leaving, return_exceptions=True)

    # --- asked by links

    async def tell(self, address: str) -> None:
        """Register at one nameserver.

        Raises:
            CometError: it cannot be reached, does not answer or refuses.
        """
        table = self._topics()
        if not self.settings.is_forced and not await self._is_news(address, table.version):
            return
        body = await self._encoded(table)
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
        answer = await self.call(
            address, RequestCode.REGISTER_BROKER, encode_fields(header), body.content
        )
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

    async def _is_news(self, address: str, version: DataVersion) -> bool:
        """Whether this nameserver has other topics of ours than we have; a sign of life, too."""
        answer = await self.call(
            address,
            RequestCode.QUERY_DATA_VERSION,
            encode_fields(self.identity),
            encode_data_version(version),
        )
        is_changed = decode_fields(DataVersionResponse, answer.fields).changed
        return is_changed or not answer.body or decode_data_version(answer.body) != version

    async def _encoded(self, table: TopicTable) -> RegistrationBody:
        """The body; made once for all nameservers, and in a thread where it is large."""
        if self._body is None or self._body[0] != table.version:
            making = asyncio.ensure_future(self._make_body(table))
            self._body = (table.version, making)
        return await asyncio.shield(self._body[1])

    async def _make_body(self, table: TopicTable) -> RegistrationBody:
        make = partial(make_body, table, is_compressed=self.settings.is_compressed)
        if self._pool is None or not _is_large(table):
            body = make()
        else:
            body = await asyncio.get_running_loop().run_in_executor(self._pool, make)
        if body.left_out:
            _log.error(
                "%d of %d topics are too many for a registration: nameservers do not hear of them; "
                "delete topics that nobody uses",
                body.left_out, len(table.topics),
            )  # fmt: skip
        return body

    def singles(self, names: Collection[str]) -> list[TopicConfig] | None:
        """These topics, where nameservers may be told of them one by one; None: tell all."""
        if len(names) > SINGLES_MAX or not self.settings.is_forced:
            return None
        topics = self._topics().topics
        if len(topics) <= WHOLE_MAX:
            return None
        return [topics[name] for name in names if name in topics]

    async def tell_one(self, address: str, config: TopicConfig) -> None:
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
        await self.call(
            address,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV,
            encode_fields(TopicRequest(config.name)),
            encode_topic_route(TopicRoute((queues,), ())),
        )

    async def call(
        self, address: str, code: RequestCode, fields: dict[str, str], body: bytes = b""
    ) -> PeerAnswer:
        """Ask a nameserver.

        Raises:
            CometError: it cannot be reached, does not answer or refuses.
        """
        timeout_ms = self.settings.timeout_ms
        if code == RequestCode.UNREGISTER_BROKER:
            timeout_ms = min(timeout_ms, _UNREGISTER_TIMEOUT_MS)
        answer = await self._calls.call(address, code, fields, body, timeout_ms=timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", address)
        return answer

    def is_connected(self, address: str) -> bool:
        """Whether the connection to a nameserver still stands."""
        return self._calls.is_connected(address)

    async def lost(self, address: str) -> None:
        """Wait until the connection to a nameserver stands no more."""
        await self._calls.lost(address)


class _Link:
    """Keeps one nameserver told.

    Attributes:
        address: of the nameserver.
        is_up: whether it took our last registration.
    """

    def __init__(self, address: str, registrar: Registrar) -> None:
        self.address = address
        self.is_up = False
        self._registrar = registrar
        self._is_asked = False
        self._woken = asyncio.Event()
        self._watching: asyncio.Future[None] | None = None  # Done when the connection is lost.
        # Done when the round that begins next has ended, well or badly.
        self._next_round: asyncio.Future[None] | None = None
        self._has_complained = False
        self._changed: set[str] | None = None  # Since the last round; None: anything.
        self._whole_at = 0.0  # When all topics were told last, seconds of the loop.

    def note(self, topic: str | None) -> None:
        """A topic changed; None is any."""
        if topic is None:
            self._changed = None
        elif self._changed is not None and len(self._changed) <= SINGLES_MAX:
            self._changed.add(topic)

    def ask(self) -> asyncio.Future[None]:
        """Want a registration; the future of its round."""
        if self._next_round is None:
            self._next_round = asyncio.get_running_loop().create_future()
        self._is_asked = True
        self._woken.set()
        return self._next_round

    async def run(self) -> None:
        """Register whenever asked, when the period is over, and when the nameserver was lost."""
        try:
            while True:
                self._is_asked = False
                current, self._next_round = self._next_round, None
                try:
                    await self._register()
                finally:
                    if current is not None and not current.done():
                        current.set_result(None)
                await self._wait()
        finally:
            if self._watching is not None:
                self._watching.cancel()

    async def _register(self) -> None:
        names, self._changed = self._changed, set()
        try:
            if names is None or not await self._tell_singly(names):
                self._whole_at = asyncio.get_running_loop().time()
                await self._registrar.tell(self.address)
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

    async def _tell_singly(self, names: set[str]) -> bool:
        """Tell of these topics alone; False: all must be told."""
        registrar = self._registrar
        due = self._whole_at + registrar.settings.period_seconds
        if not self.is_up or not names or asyncio.get_running_loop().time() >= due:
            return False
        configs = registrar.singles(names)
        if configs is None or not registrar.is_connected(self.address):
            return False
        try:
            for config in configs:
                await registrar.tell_one(self.address, config)
        except BrokerRefused:
            return False  # One of before 5.0 does not know the request.
        return True

    async def _wait(self) -> None:
        """Until somebody asks, the period is over, or the nameserver was lost."""
        if not self.is_up:
            await self._wait_asked(_RETRY_SECONDS)
            return
        if self._watching is None or self._watching.done():
            # One for as long as the connection stands, and not one for each period.
            self._watching = asyncio.ensure_future(self._registrar.lost(self.address))
            self._watching.add_done_callback(lambda _: self._woken.set())
        await self._wait_asked(self._registrar.settings.period_seconds)
        if self._watching.done() and not self._is_asked:
            await self._wait_asked(_LOST_SECONDS)

    async def _wait_asked(self, seconds: float) -> None:
        """Until somebody asks, the connection is lost, or this time is over."""
        self._woken.clear()
        if self._is_asked:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def leave(self) -> None:
        """Tell the nameserver that this broker goes."""
        fields = encode_fields(self._registrar.identity)
        try:
            await self._registrar.call(self.address, RequestCode.UNREGISTER_BROKER, fields)
        except CometError as error:
            _log.warning("not unregistered at nameserver %s: %s", self.address, error)


def _is_large(table: TopicTable) -> bool:
    """Whether it takes long to make a body of it."""
    if len(table.topics) > WHOLE_MAX:
        return True
    attributes = (config.attributes for config in table.topics.values() if config.attributes)
    return sum(len(value) for each in attributes for value in each.values()) > ATTRIBUTES_MAX


async def _all_of(rounds: Sequence[asyncio.Future[None]], *, seconds: float) -> None:
    if rounds:
        await asyncio.wait(rounds, timeout=seconds)
