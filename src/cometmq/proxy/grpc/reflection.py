"""The service `grpc.reflection`, from which tools such as grpcurl learn the methods and messages of a server."""

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from cometmq.proxy.grpc.calls import CallRefused, GrpcStatus, Services, Streaming
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.grpc.standard_messages import ReflectionRequest, ReflectionResponse


class Reflection:
    """The descriptions of a server's services, as encoded files of `protoc`."""

    def __init__(self, files: Iterable[bytes], names: Iterable[str]) -> None:
        """Describe the services `names`, by their full names, with `files`: each an encoded FileDescriptorProto.

        The files should include those that they import.
        """
        self._names = sorted(names)
        self._encoded: dict[str, bytes] = {}
        self._imports: dict[str, Sequence[str]] = {}
        self._file_of: dict[
            str, str
        ] = {}  # By full names of messages, enums, services and methods.
        for encoded in files:
            file = FileDescriptorProto.FromString(encoded)
            self._encoded[file.name] = encoded
            self._imports[file.name] = list(file.dependency)
            for symbol in _symbols(file):
                self._file_of[symbol] = file.name

    @property
    def services(self) -> Services:
        """The handlers of the method ServerReflectionInfo, by path, for the versions v1 and v1alpha."""
        return {
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo": Streaming(
                lambda call: ReflectionStream(self, call)
            )
            for version in ("v1", "v1alpha")
        }

    def answer(self, encoded: bytes) -> bytes:
        """Return the encoded answer to a request; raise CallRefused if the request cannot be decoded."""
        try:
            asked = ReflectionRequest.FromString(encoded)
        except DecodeError:
            raise CallRefused(
                GrpcStatus.INVALID_ARGUMENT, "the request is no ServerReflectionRequest"
            ) from None
        answer = ReflectionResponse(valid_host=asked.host, original_request=asked)
        self._fill(answer, asked)
        response: bytes = answer.SerializeToString()
        return response

    def _fill(self, answer: Any, asked: Any) -> None:
        kind = asked.WhichOneof("message")
        if kind == "list_services":
            for service in self._names:
                answer.list_services_response.service.add(name=service)
            return
        name: str | None = None
        if kind == "file_by_filename" and asked.file_by_filename in self._encoded:
            name = asked.file_by_filename
        elif kind == "file_containing_symbol":
            name = self._file_of.get(asked.file_containing_symbol)
        if name is None:
            error = answer.error_response
            error.error_code = (
                GrpcStatus.UNIMPLEMENTED if kind is None else GrpcStatus.NOT_FOUND
            )
            error.error_message = "this server does not describe what was asked for"
            return
        answer.file_descriptor_response.file_descriptor_proto.extend(self._with_imports(name))

    def _with_imports(self, name: str) -> list[bytes]:
        found: dict[str, bytes] = {}
        missing = [name]
        while missing:
            each = missing.pop()
            if each not in found and each in self._encoded:
                found[each] = self._encoded[each]
                missing += self._imports[each]
        return list(found.values())


class ReflectionStream:
    """A call of the reflection service; implements `CallStream`."""

    def __init__(self, reflection: Reflection, call: GrpcCall) -> None:
        self._reflection = reflection
        self._call = call

    def received(self, message: bytes) -> None:
        """Answer a request; raise CallRefused, which ends the call, if the client does not read earlier answers."""
        if self._call.is_paused:
            raise CallRefused(
                GrpcStatus.RESOURCE_EXHAUSTED, "read the answers before asking again"
            )
        self._call.answer(self._reflection.answer(message))

    def half_closed(self) -> None:
        """End the call, because the client sends no further request."""
        self._call.finish()

    def closed(self) -> None:
        """Do nothing: there is nothing to release."""


def _symbols(file: FileDescriptorProto) -> list[str]:
    prefix = f"{file.package}." if file.package else ""
    symbols = [prefix + each.name for each in file.enum_type]
    for message in file.message_type:
        symbols += _nested(prefix, message)
    for service in file.service:
        symbols.append(prefix + service.name)
        symbols += [f"{prefix}{service.name}.{method.name}" for method in service.method]
    return symbols


def _nested(prefix: str, message: DescriptorProto) -> list[str]:
    name = prefix + message.name
    symbols = [name, *(f"{name}.{each.name}" for each in message.enum_type)]
    for each in message.nested_type:
        symbols += _nested(f"{name}.", each)
    return symbols
