"""Every error that CometMQ raises on purpose, for those who catch them.

    from cometmq.errors import BrokerRefused, CometError

All are a `CometError`. Their tree, with what each of them means, is `cometmq.model.errors`; an error that can
be met only beside the client has its place here, too: a store that an embedded broker cannot open, say.
"""

from cometmq.model.errors import (
    BombError,
    BrokerNotFound,
    BrokerRefused,
    ClientClosed,
    ClientError,
    CodecError,
    CometError,
    ConnectError,
    ConnectionLost,
    ExpressionError,
    FrameTooLarge,
    MessageError,
    NetError,
    RecordIllegal,
    RequestError,
    RequestTimeout,
    SendFailed,
    SettingsError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StorePoisoned,
    StoreReadOnly,
    SubscriptionError,
    TopicNotFound,
)

__all__ = [
    "BombError",
    "BrokerNotFound",
    "BrokerRefused",
    "ClientClosed",
    "ClientError",
    "CodecError",
    "CometError",
    "ConnectError",
    "ConnectionLost",
    "ExpressionError",
    "FrameTooLarge",
    "MessageError",
    "NetError",
    "RecordIllegal",
    "RequestError",
    "RequestTimeout",
    "SendFailed",
    "SettingsError",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StorePoisoned",
    "StoreReadOnly",
    "SubscriptionError",
    "TopicNotFound",
]
