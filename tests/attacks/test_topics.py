"""Topics by the thousand: made by sends, or found in the files of a start."""

import os

from cometmq.codec.bodies.topic_config import TopicsFileEncoder, TopicTable
from cometmq.model.data_version import DataVersion
from cometmq.model.topic import TopicConfig
from tests.attacks.beats import kept, knows_route
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.good_client import GoodClient
from tests.support.load import send_frame
from tests.support.processes import wait_until
from tests.support.request_fields import topic_fields

SYSTEM_ERROR = 1
TOPICS = 300


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  One line.
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send_to_each(peer, names, *, window=30):
    """One message to each topic, some of them at once; the answers."""
    answers = []
    for first in range(0, len(names), window):
        some = names[first : first + window]
        for number, name in enumerate(some):
            peer.socket.sendall(send_frame(name, b"x", opaque=number, queue_id=0))
        answers += sorted((peer.read() for _ in some), key=lambda answer: answer.opaque)
    return answers


def put_topics(folder, table):
    """The topics that a broker finds at its start."""
    config = folder / "broker/store/config"
    config.mkdir(parents=True)
    text = TopicsFileEncoder().encode(TopicTable(DataVersion(1, 1), table))
    (config / "topics.json").write_text(text)


def test_thousands_of_topics_made_by_sends_take_no_time_for_each_of_all(tmp_path, nameserver):
    known = {f"known_{i:05}": TopicConfig(f"known_{i:05}", 8, 8, 6) for i in range(6000)}
    put_topics(tmp_path, known)
    names = [f"topic_{number:05}" for number in range(TOPICS)]
    with processes.broker(tmp_path / "broker", nameserver.address) as broker:
        pids = broker.pid, nameserver.pid
        with GoodClient(broker.address, broker.pid) as good, Stranger(broker.address) as peer:
            before = sum(map(processor_seconds, pids))
            codes = {answer.code for answer in send_to_each(peer, names)}
            assert codes == {0}
            # Whoever made a topic finds its route soon.
            wait_until(
                lambda: knows_route(nameserver.address, names[-1]), seconds=2, what="its route"
            )
            took = sum(map(processor_seconds, pids)) - before
        print(f"{took:.1f} s of processor time for {TOPICS} topics")
        assert took / TOPICS < 0.006
    good.check()


def test_topics_beyond_the_bound_are_refused_by_name(tmp_path, nameserver):
    settings = {"topicsMax": 30, "groupsMax": 20}
    with (
        processes.broker(tmp_path / "broker", nameserver.address, settings=settings) as broker,
        Stranger(broker.address) as peer,
    ):
        answers = send_to_each(peer, [f"topic_{number}" for number in range(40)])
        assert [answer.code for answer in answers] == [0] * 30 + [SYSTEM_ERROR] * 10
        assert (
            "topic topic_30 cannot be created: this broker has 30 topics" in answers[30].remark
        )
        assert "topicsMax is 30; delete some, or raise it" in answers[30].remark
        assert send_to_each(peer, ["topic_0"])[0].code == 0
        assert peer.ask(215, {"topic": "topic_1"}).code == 0
        assert send_to_each(peer, ["topic_40"])[0].code == 0
        made = [peer.ask(200, body=b'{"groupName":"g%d"}' % number) for number in range(30)]
        refused = made[-1]
        assert refused.code == SYSTEM_ERROR
        assert "groupsMax is 20; delete some, or raise it" in refused.remark


def test_a_topic_that_would_make_the_table_too_large_to_register_is_refused(
    tmp_path, nameserver
):
    """By its attributes: 20,000 topics are within the bound of their number."""
    note = {"note": "x" * 60_000}
    table = {f"t{i}": TopicConfig(f"t{i}", 1, 1, 6, attributes=note) for i in range(260)}
    put_topics(tmp_path, table)
    fields = topic_fields("last", attributes="+note=" + "x" * 60_000)
    with (
        processes.broker(tmp_path / "broker", nameserver.address) as broker,
        Stranger(broker.address) as peer,
    ):
        assert peer.ask(17, fields).code == 0
        refused = peer.ask(17, {**fields, "topic": "refused"})
        assert refused.code == SYSTEM_ERROR
        assert (
            "a registration at nameservers has room for 15728640; delete some" in refused.remark
        )
        assert knows_route(nameserver.address, "last")


def test_a_broker_whose_files_hold_too_many_topics_starts_and_registers(tmp_path, nameserver):
    names = [f"{number:06}_{'t' * 120}" for number in range(45_000)]
    table = {name: TopicConfig(name, 8, 8, 6) for name in names}
    put_topics(tmp_path, table)
    with (
        processes.broker(tmp_path / "broker", nameserver.address) as broker,
        Stranger(broker.address) as peer,
    ):
        assert all(knows_route(nameserver.address, name) for name in (names[0], names[-1]))
        assert send_to_each(peer, names[:2])[0].code == 0
        assert send_to_each(peer, ["one_more"])[0].code == SYSTEM_ERROR
        everything = peer.ask(21)
        assert everything.code == SYSTEM_ERROR
        assert "ask for less" in everything.remark, "it fits no frame, and is answered"
    assert len(kept(tmp_path / "broker", "topics.json")["topicConfigTable"]) > 45_000
