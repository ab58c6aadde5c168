"""Settings that are changed over the wire count at once, and at the next start, too."""

from cometmq.codec.java_properties import decode_java_properties
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.request_fields import send_fields

UPDATE_CONFIG, GET_CONFIG, SEND, NOBODY = 25, 26, 310, "127.0.0.1:1"
NO_PERMISSION, INVALID, TOPIC_NOT_EXIST = 16, 29, 17
CHANGED = {
    "autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false", "fileReservedTime": "5", "deleteWhen": "03;15",
    "slaveTimeout": "1234", "brokerPermission": "6", "transactionTimeOut": "1000",
}  # fmt: skip


def change(peer: Stranger, **values: str) -> int:
    body = "".join(f"{key}={value}\n" for key, value in values.items())
    return peer.ask(UPDATE_CONFIG, body=body.encode()).code


def in_force(peer: Stranger) -> dict[str, str]:
    return decode_java_properties(peer.ask(GET_CONFIG).body)


def send(peer: Stranger, topic: str) -> int:
    fields = send_fields(topic)
    return peer.ask(SEND, fields, b"x").code


def test_they_count_at_once_and_at_the_next_start(tmp_path):
    with processes.broker(tmp_path, NOBODY) as broker:
        with Stranger(broker.address) as peer:
            assert send(peer, "Made") == 0
            assert change(peer) == 0
            assert change(peer, **CHANGED) == 0
            assert send(peer, "Not_Made") == TOPIC_NOT_EXIST
            assert send(peer, "Made") == 0
            # All of a request, or none of it.
            assert change(peer, fileReservedTime="9", rocketmqHome="/tmp") == NO_PERMISSION
            assert change(peer, fileReservedTime="9", deleteWhen="25") == INVALID
            assert change(peer, fileReservedTime="9", slaveTimeout="soon") == INVALID
            assert in_force(peer).items() >= CHANGED.items()
        conf = (tmp_path / "broker.conf").read_text()
        broker.stop()
        broker.start()
        with Stranger(broker.address) as peer:
            assert in_force(peer).items() >= CHANGED.items()
            assert send(peer, "Not_Made") == TOPIC_NOT_EXIST
            assert change(peer, autoCreateTopicEnable="true") == 0
            assert send(peer, "Made_Now") == 0
        assert (tmp_path / "broker.conf").read_text() == conf, "the file is its user's"


def test_who_waits_for_a_copy_is_freed_when_none_is_wanted_any_more(tmp_path):
    settings = {
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": "1",
        "haAllowedAddresses": "127.0.0.1",
    }
    with (
        processes.broker(tmp_path, NOBODY, settings=settings) as broker,
        Stranger(broker.address) as peer,
    ):
        assert send(peer, "Made") == 0
        assert change(peer, inSyncReplicas="2") == 0
        assert in_force(peer)["inSyncReplicas"] == "2"
        assert send(peer, "Made") == 11  # SLAVE_NOT_AVAILABLE
        assert change(peer, inSyncReplicas="1") == 0
        assert send(peer, "Made") == 0
