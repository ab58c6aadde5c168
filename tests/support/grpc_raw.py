"""A plain gRPC client for tests (grpcio), which sends any request of MessagingService, wrong ones too."""

import hmac
import itertools
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from typing import Any

import grpc

from cometmq.proxy.v2 import messaging_pb2 as pb

_PATH = "/apache.rocketmq.v2.MessagingService/"
_IDS = itertools.count(1)


def resource(name: str, namespace: str = "") -> pb.Resource:
    return pb.Resource(name=name, resource_namespace=namespace)


def seconds(value: float) -> Any:
    made = pb.ReceiveMessageRequest().invisible_duration
    made.FromMilliseconds(int(value * 1000))
    return made


class RawGrpc:
    """A channel and a client id."""

    def __init__(
        self,
        address: str,
        client_id: str | None = "raw",
        *,
        key: str = "",
        secret: str = "",
    ) -> None:
        self.channel = grpc.insecure_channel(address)
        self.metadata = [("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.1.2")]
        if client_id is not None:
            self.metadata.append(("x-mq-client-id", client_id))
        if key:
            date = "20260101T000000Z"
            sign = hmac.new(secret.encode(), date.encode(), sha1).hexdigest()
            self.metadata += [
                ("x-mq-date-time", date),
                ("authorization", f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={sign}"),
            ]  # fmt: skip

    def __enter__(self) -> "RawGrpc":
        return self

    def __exit__(self, *_error: object) -> None:
        self.channel.close()

    def call(self, request: Any, *, timeout: float = 30) -> Any:
        """The response to a request of a method with one response."""
        name = type(request).DESCRIPTOR.name.removesuffix("Request")
        response = getattr(pb, f"{name}Response")
        method = self.channel.unary_unary(
            _PATH + name, type(request).SerializeToString, response.FromString
        )
        return method(request, metadata=self.metadata, timeout=timeout, wait_for_ready=True)

    def stream(self, request: Any, *, timeout: float | None = 30) -> Any:
        """The call of a method with several responses."""
        name = type(request).DESCRIPTOR.name.removesuffix("Request")
        response = getattr(pb, f"{name}Response")
        method = self.channel.unary_stream(
            _PATH + name, type(request).SerializeToString, response.FromString
        )
        return method(request, metadata=self.metadata, timeout=timeout, wait_for_ready=True)

    def telemetry(self, commands: Iterator[pb.TelemetryCommand]) -> Any:
        method = self.channel.stream_stream(
            _PATH + "Telemetry",
            pb.TelemetryCommand.SerializeToString,
            pb.TelemetryCommand.FromString,
        )
        return method(commands, metadata=self.metadata, timeout=60)

    # --- what most tests do

    def message(self, topic: str, body: bytes = b"x", **system: Any) -> pb.Message:
        made = pb.Message(topic=resource(topic), body=body)
        system = {"message_id": f"id-{next(_IDS)}", "body_encoding": pb.IDENTITY, **system}
        made.system_properties.CopyFrom(pb.SystemProperties(**system))
        return made

    def send(self, *messages: pb.Message) -> pb.SendMessageResponse:
        return self.call(pb.SendMessageRequest(messages=messages))

    def receive_request(
        self, topic: str, group: str = "readers", *, count: int = 32, **more: Any
    ) -> pb.ReceiveMessageRequest:
        asked = pb.ReceiveMessageRequest(
            group=resource(group),
            message_queue=pb.MessageQueue(topic=resource(topic), id=-1),
            batch_size=count,
        )
        more = {
            "invisible_duration": seconds(15),
            "long_polling_timeout": seconds(5),
            **more,
        }
        if more.get("auto_renew"):
            del more["invisible_duration"]
        asked.MergeFrom(pb.ReceiveMessageRequest(**more))
        return asked

    def receive(
        self, topic: str, group: str = "readers", *, timeout: float = 30, **more: Any
    ) -> tuple[pb.Status, list[pb.Message]]:
        status, found = pb.Status(), []
        asked = self.receive_request(topic, group, **more)
        for part in self.stream(asked, timeout=timeout):
            if part.HasField("status"):
                status = part.status
            elif part.HasField("message"):
                found.append(part.message)
        return status, found

    def ack(self, topic: str, group: str, *handles: str) -> pb.AckMessageResponse:
        entries = [pb.AckMessageEntry(message_id="m", receipt_handle=each) for each in handles]
        return self.call(
            pb.AckMessageRequest(topic=resource(topic), group=resource(group), entries=entries)
        )

    def change(self, topic: str, group: str, handle: str, hidden: float) -> Any:
        return self.call(
            pb.ChangeInvisibleDurationRequest(
                topic=resource(topic), group=resource(group), receipt_handle=handle,
                invisible_duration=seconds(hidden), message_id="m",
            )
        )  # fmt: skip

    @contextmanager
    def settled(self, settings: pb.Settings) -> Iterator[pb.TelemetryCommand]:
        """An open stream of telemetry with these settings; the server's answer."""
        waiting: queue.Queue[pb.TelemetryCommand | None] = queue.Queue()
        waiting.put(pb.TelemetryCommand(settings=settings))
        stream = self.telemetry(iter(waiting.get, None))
        try:
            yield next(stream)
        finally:
            waiting.put(None)
            stream.cancel()
