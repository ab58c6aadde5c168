"""The messages of RocketMQ's gRPC protocol, as messaging.proto describes them.

tools/proto.py makes messaging.binpb, which is read here, and the types in messaging_pb2.pyi. The messages are in a pool
of their own, because the official client registers the same names in the pool of the process.
"""

from pkgutil import get_data

from google.protobuf import descriptor_pool, duration_pb2, message_factory, timestamp_pb2
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

POOL = descriptor_pool.DescriptorPool()
for _each in (duration_pb2, timestamp_pb2):
    POOL.AddSerializedFile(_each.DESCRIPTOR.serialized_pb)
# By the module's loader, because the package may be in a zip file, as Spark's --py-files takes it.
DESCRIPTOR = POOL.AddSerializedFile(get_data(__name__, "messaging.binpb"))
for _name, _message in DESCRIPTOR.message_types_by_name.items():
    globals()[_name] = message_factory.GetMessageClass(_message)
for _name, _enum in DESCRIPTOR.enum_types_by_name.items():
    globals()[_name] = EnumTypeWrapper(_enum)
    globals().update({value.name: value.number for value in _enum.values})
