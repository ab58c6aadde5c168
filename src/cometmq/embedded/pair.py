"""A nameserver and a broker on the running loop, with its sockets and with real files.

    async with AsyncEmbedded() as cluster:
        async with AsyncProducer(cluster.nameserver) as producer: ...

They differ from the programs mainly in their defaults: free ports, a temporary folder, no metrics if the broker's port
is a free one, and log files of 64 MiB instead of 1 GiB, because a log file takes its full space when it is created.
"""

import asyncio
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cometmq.broker.send.admission import AdmittedSend
from cometmq.broker.send.requests.answers import DURABILITY_CODES
from cometmq.broker.send.sends import Sends
from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import LOOPBACK, BrokerSettings, settings_of
from cometmq.client.results import SEND_STATUSES, SendResult
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.host import encode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import encode_properties
from cometmq.model.codes import RequestCode
from cometmq.model.errors import BrokerRefused, RequestError, SettingsError
from cometmq.model.message import Message
from cometmq.model.queue import MessageQueue
from cometmq.model.settings import Layer
from cometmq.model.text import plural
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answer import answer_to_error
from cometmq.net.loop import check_threads, loop_clock
from cometmq.net.turn import COUNT_MAX, SIZE_MAX
from cometmq.proxy.start import start_proxy
from cometmq.store.appender import PutResult
from cometmq.store.positions import Durability

if TYPE_CHECKING:
    from cometmq.proxy.server import ProxyServer

_log = logging.getLogger(__name__)

LOG_FILE_SIZE = 64 << 20
FOLDER_PREFIX = "cometmq-"
STORE_FOLDER = "store"
BROKER_NAME = "broker-a"
_OUR_KEYS = frozenset(("namesrvAddr", "listenPort", "storePathRootDir", "storePathCommitLog"))


_GROUP = "embedded"  # The producer group, which no client has.
_ANY_QUEUE = -1
_CODE = int(RequestCode.SEND_MESSAGE_V2)  # The request that errors and the log name.

# A send, and the future of its result.
_Put = tuple[Message, AdmittedSend, "asyncio.Future[SendResult]"]


class LocalSends:
    """Sender of messages from this process to its embedded broker; receives their results as a `SendCaller`.

    It stores them without a client or a connection, by the code that stores a producer's.

    Attributes:
        address: The broker's address, "ip:port".
        host: The same as bytes, in a record's format; it also stands for this process as the sender.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.address = broker.address
        self.host = encode_host(broker.address)

    async def put(self, messages: Sequence[Message]) -> list[SendResult]:
        """Store messages, at most 256 or about 1 MiB at a time; return their results in order once each has one.

        Raises BrokerRefused if a message is refused; earlier ones, and others put with it, may be stored.
        """
        results: list[SendResult] = []
        for part in _turns(messages):
            results += await asyncio.gather(*self._put(part))
        return results

    def _put(self, messages: list[Message]) -> "list[asyncio.Future[SendResult]]":
        loop, sends = asyncio.get_running_loop(), self._broker.role.sends
        try:
            admitted = [self._admit(message, sends) for message in messages]
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler.
            raise self._refused(error) from None
        ended = [loop.create_future() for _ in messages]
        for message, one, end in zip(messages, admitted, ended, strict=True):
            sends.put(one, (message, one, end), self)
        sends.store()
        sends.written()
        return ended

    def _admit(self, message: Message, sends: Sends) -> AdmittedSend:
        properties = encode_properties(message.stored_properties()).decode()
        request = SendRequestV2(
            _GROUP, message.topic, _ANY_QUEUE, 0, loop_clock().now_ms(), message.flag,
            properties=properties,
        )  # fmt: skip
        return sends.admission.admit(request, bytes(message.body), self)

    def _refused(self, error: BaseException) -> BrokerRefused:
        code, remark, _, _ = answer_to_error(error, _CODE)
        return BrokerRefused(code, remark or "", self.address)

    # --- the results

    def stored(
        self,
        sends: list[_Put],
        results: list[PutResult],
        durability: Durability,
        *,
        has_waited: bool,
    ) -> None:
        """Complete the futures of stored sends with their SendResults, for the calls of `put` that wait."""
        code = DURABILITY_CODES[durability]
        if code not in SEND_STATUSES:  # A later leader may lack them: the answer is an error.
            remark = (
                f"the message is {durability.value}; send it again, consumers may get it twice"
            )
            self.refused(sends, RequestError(code, remark))
            return
        settings, status = self._broker.settings, SEND_STATUSES[code]
        for (message, admitted, end), (queue_offset, physical_offset, _) in zip(
            sends, results, strict=True
        ):
            queue = MessageQueue(message.topic, settings.broker_name, admitted.queue_id)
            result = SendResult(
                status, admitted.transaction_id, encode_message_id(self.host, physical_offset),
                queue, queue_offset, admitted.transaction_id,
                settings.region_id, settings.is_trace_on, admitted.recall_handle,
            )  # fmt: skip
            if not end.done():
                end.set_result(result)

    def refused(self, sends: list[_Put], error: BaseException) -> None:
        """Fail the futures of refused sends with BrokerRefused, for the calls of `put` that wait."""
        for _, _, end in sends:
            if not end.done():
                end.set_exception(self._refused(error))


def _turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield the messages in lists, each ending at 256 messages, at 1 MiB of bodies or at the end; keeps the loop responsive."""
    part: list[Message] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.body)
        if len(part) == COUNT_MAX or size >= SIZE_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part


class AsyncEmbedded:
    """A nameserver and a broker on the running event loop, from `start` to `close` or in an `async with` block.

    Args:
        data_dir: Directory of the files, created if missing and kept; None: a temporary one, deleted on close.
        settings: Keys and values of a `broker.conf`, except namesrvAddr, listenPort and the paths of the store.
        nameserver_port: Port of the nameserver; 0 selects a free one.
        broker_port: Port of the broker; 0 selects a free one.
        grpc_port: Port for gRPC clients (needs the extra `grpc`); 0 selects a free one; None: that of `settings`, or none.

    Attributes:
        nameserver: "host:port" of the nameserver, for clients; empty before the start.
        broker: "host:port" of the broker; empty before the start.
        grpc_address: "host:port" for gRPC clients; empty before the start, and if there is none.

    Raises:
        SettingsError: A setting cannot be used.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Mapping[str, str | int | bool] | None = None,
        nameserver_port: int = 0,
        broker_port: int = 0,
        grpc_port: int | None = None,
    ) -> None:
        self.nameserver = ""
        self.broker = ""
        self.grpc_address = ""
        self._grpc_port = grpc_port
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._nameserver_port = nameserver_port
        self._settings = _read_settings(settings or {}, broker_port)
        self._running: list[NameServer | Broker | ProxyServer] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.nameserver or 'not started'}>"

    @property
    def data_dir(self) -> Path:
        """Directory of the files of nameserver and broker; AssertionError for a temporary one before the start."""
        assert self._data_dir is not None, "the temporary folder is made by start()"
        return self._data_dir

    async def start(self) -> None:
        """Start the nameserver and the broker; both accept clients when this returns.

        Raises:
            AssertionError: They are running already.
            NetError: A port cannot be opened, for example because it is in use.
            StoreError, CodecError: The files cannot be used, for example because another broker has them open.
            OSError: The directory or a file cannot be created or read.
            SettingsError: A setting, or a file that it names, cannot be used; or gevent or eventlet has replaced threads.
        """
        assert not self._running, "it is running already"
        check_threads()
        try:
            self._make_folder()
            await self._start_nameserver()
            await self._start_broker()
        except BaseException:
            await self.close()
            raise

    def _make_folder(self) -> None:
        if self._data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX)
            self._data_dir = Path(self._temporary.name)
        self._data_dir.mkdir(parents=True, exist_ok=True)

    async def _start_nameserver(self) -> None:
        nameserver = await start_nameserver(self.data_dir, self._nameserver_port)
        self._running.append(nameserver)
        self.nameserver = nameserver.address

    async def _start_broker(self) -> None:
        settings = replace(
            self._settings,
            nameservers=self.nameserver,
            store_path=str(self.data_dir.absolute() / STORE_FOLDER),
        )
        broker = Broker(settings, loop_clock())
        await broker.start()
        self._running.append(broker)
        self.broker = broker.address
        self._local_sends = LocalSends(broker)
        proxy = await start_proxy(broker, self._grpc_port)
        if proxy is not None:
            self._running.append(proxy)
            self.grpc_address = f"{LOOPBACK}:{proxy.port}"

    async def put(self, *messages: Message) -> list[SendResult]:
        """Store messages in the broker without a client, checked like a producer's; return their results in order.

        Raises BrokerRefused if a message is refused; earlier ones, and others put with it, may be stored.
        AssertionError before the start or after the close.
        """
        assert self._running, "messages are put between start() and close()"
        return await self._local_sends.put(messages)

    async def close(self) -> None:
        """Stop the broker, which flushes its data, then the nameserver; delete a temporary directory."""
        while self._running:
            await self._running.pop().close()
        if self._temporary is not None:
            self._temporary.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class PairHolder:
    """The addresses and the directory of an `AsyncEmbedded` that a subclass starts and closes."""

    _pair: AsyncEmbedded

    @property
    def nameserver(self) -> str:
        """Address of the nameserver, "host:port", for clients, of a `Virtual` within `run`; empty before the start."""
        return self._pair.nameserver

    @property
    def broker(self) -> str:
        """Address of the broker, "host:port"; empty before the start."""
        return self._pair.broker

    @property
    def data_dir(self) -> Path:
        """Directory of the files of nameserver and broker; AssertionError for a temporary one before the start."""
        return self._pair.data_dir


async def start_nameserver(data_dir: Path, port: int) -> NameServer:
    """Start a nameserver on the running loop, with its file in a directory; port 0 selects a free one.

    Raises:
        NetError: The port cannot be opened.
        CodecError, OSError: Its file cannot be read.
    """
    settings = NameServerSettings(
        bind_address=LOOPBACK,
        listen_port=port,
        kv_config_path=str(data_dir / "kvConfig.json"),
    )
    nameserver = NameServer(settings, loop_clock())
    await nameserver.start()
    return nameserver


def _read_settings(given: Mapping[str, str | int | bool], port: int) -> BrokerSettings:
    if clash := _OUR_KEYS.intersection(given):
        raise SettingsError(
            f"{', '.join(sorted(clash))} cannot be set here, because Embedded sets "
            f"{plural(len(clash), 'it', 'them')} from its arguments"
        )
    defaults = {
        "brokerName": BROKER_NAME,
        "listenPort": port,
        "mappedFileSizeCommitLog": LOG_FILE_SIZE,
        # On free ports several brokers may run at a time, and nobody would know the metrics port.
        "metricsExporterType": "PROM" if port else "DISABLE",
    }
    if "brokerIP1" not in given:
        # Also in a container, where a broker's default is every address.
        defaults["bindAddress"] = LOOPBACK
    layers = [Layer("embedded", _texts(defaults)), Layer("settings", _texts(given))]
    settings, warnings = settings_of(layers)
    for warning in warnings:
        _log.warning(warning)
    return settings


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in values.items()
    }
