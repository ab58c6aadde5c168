"""What forms do: topics, groups, messages, resets; twice, wrong, and from two windows; and the audit knows all of it."""

import pytest

from cometmq import Admin, PullConsumer
from cometmq.admin import GroupConfig
from cometmq.dashboard.cluster_clients import PRODUCER_GROUP
from tests.dashboard.web import hidden, text_of
from tests.dashboard.world import ORDERS


@pytest.fixture(scope="module")
def cluster(nameserver):
    """The same cluster, asked without the dashboard."""
    with Admin(nameserver) as asked:
        yield asked


def test_a_topic_comes_changes_and_goes(admin, cluster):
    said = admin.post("/topics/create", name="made-here", write="3", read="4", perm="6")
    assert "The topic made-here is created." in text_of(said)
    (config,) = cluster.topics.configs("made-here").values()
    assert (config.write_queues, config.read_queues, config.perm) == (3, 4, 6)
    seen = seen_in(admin, "made-here")
    said = admin.post(
        "/topic/change", name="made-here", write="5", read="5", perm="4", seen=seen
    )
    assert "The topic made-here is changed." in text_of(said)
    (config,) = cluster.topics.configs("made-here").values()
    assert (config.write_queues, config.read_queues, config.perm) == (5, 5, 4)
    said = admin.post("/topic/delete", name="made-here", sure="made-her")
    assert said.status_code == 400
    assert "was not deleted: enter 'made-here' to confirm" in text_of(said)
    assert "made-here" in cluster.topics.list()
    said = admin.post("/topic/delete", name="made-here", sure="made-here")
    assert "is deleted, with its messages" in text_of(said)
    assert "made-here" not in cluster.topics.list()


def seen_in(visitor, name, path="/topic"):
    page = visitor.get(path, name=name).text
    start = page.index('name="seen" value="') + len('name="seen" value="')
    return page[start : page.index('"', start)]


def test_two_windows_do_not_change_one_topic_unseen(admin, cluster):
    cluster.topics.create("two-windows", queues=2)
    seen = seen_in(admin, "two-windows")
    cluster.topics.create("two-windows", queues=6)
    said = admin.post(
        "/topic/change", name="two-windows", write="3", read="3", perm="6", seen=seen
    )
    assert said.status_code == 400
    assert "was changed in the meantime" in text_of(said)
    assert 'name="write" value="6"' in said.text
    (config,) = cluster.topics.configs("two-windows").values()
    assert config.write_queues == 6


def test_a_key_comes_changes_and_goes(admin, cluster):
    named = {"namespace": "by-page", "key": "colour"}
    for value in ("blue", "red"):
        said = text_of(admin.post("/kv/set", **named, value=value))
        assert "The key colour is set at every nameserver." in said
        assert f"colour {value}" in said
        assert cluster.brokers.kv_values("by-page") == {"colour": value}
    said = admin.post("/kv/delete", **named)
    assert said.status_code == 400
    assert "was not deleted: tick the box" in text_of(said)
    said = admin.post("/kv/delete", **named, sure="1")
    assert "The key colour is deleted." in text_of(said)
    assert cluster.brokers.kv_values("by-page") == {}
    actions = text_of(admin.get("/audit"))
    for each in ("set key", "delete key"):
        assert f"{each} by-page: colour done" in actions


def test_without_a_tick_the_form_of_page_2_still_names_the_chosen_key(admin, cluster):
    for number in range(101):
        cluster.brokers.set_kv_value("two-pages", f"key-{number:03}", "v")
    page = admin.get("/kv", namespace="two-pages", page=2)
    assert '<select name="key" required><option value=""></option>' in page.text
    assert '<input type="hidden" name="page" value="2">' in page.text
    chosen = {"namespace": "two-pages", "page": "2", "key": "key-100"}
    said = admin.post("/kv/delete", **chosen)
    assert said.status_code == 400
    assert '<option value="key-100" selected>' in said.text
    said = admin.post("/kv/delete", **chosen, sure="1")
    assert "The key key-100 is deleted." in text_of(said)


def test_a_long_value_can_be_set_and_a_long_key_is_left_to_the_command(admin, cluster):
    value = ";".join(f"broker-{number}:4" for number in range(200))
    admin.post("/kv/set", namespace="ORDER_TOPIC_CONFIG", key="many-brokers", value=value)
    assert cluster.brokers.kv_values("ORDER_TOPIC_CONFIG")["many-brokers"] == value
    cluster.brokers.set_kv_value("long-keys", "k" * 1001, "v")
    page = admin.get("/kv", namespace="long-keys")
    assert "Keys of over 1,000 characters are not in the list" in text_of(page)
    assert "k" * 1001 not in page.text
    admin.post("/kv/set", namespace="long-keys", key="short", value="v")
    page = admin.get("/kv", namespace="long-keys")
    assert '<option value="short">' in page.text
    cluster.brokers.delete_kv_value("ORDER_TOPIC_CONFIG", "many-brokers")


def test_a_key_that_ends_with_a_space_is_deleted_and_no_other_one(admin, cluster):
    for key in ("ends", "ends "):
        cluster.brokers.set_kv_value("spaces", key, "v")
    admin.post("/kv/delete", namespace="spaces", key="ends ", sure="1")
    assert cluster.brokers.kv_values("spaces") == {"ends": "v"}


def test_the_dead_letters_of_a_group_are_deleted_once_its_name_is_typed(admin, cluster):
    cluster.topics.create("%DLQ%emptied", queues=1)
    said = admin.post("/dead/delete", name="emptied", sure="empty")
    assert said.status_code == 400
    assert "group 'emptied' was not deleted: enter 'emptied' to confirm" in text_of(said)
    assert "%DLQ%emptied" in cluster.topics.list()
    said = admin.post("/dead/delete", name="emptied", sure="emptied")
    assert "The dead letters of group emptied are deleted." in text_of(said)
    assert "%DLQ%emptied" not in cluster.topics.list()


@pytest.mark.parametrize(
    ("path", "fields", "sentence"),
    [
        ("/topics/create", {"name": ""}, "The topic is missing"),
        ("/topics/create", {"name": "a/b"}, "a/b"),
        ("/topics/create", {"name": "../../x"}, "../../x"),
        ("/topics/create", {"name": "x" * 200}, "127"),
        ("/topics/create", {"name": ORDERS}, "exists; change it"),
        ("/topics/create", {"name": "t", "write": "0"}, "is not a whole number from 1"),
        ("/topics/create", {"name": "t", "read": "1e3"}, "is not a whole number"),
        ("/topics/create", {"name": "t", "perm": "5"}, "5 is not a permission"),
        ("/groups/create", {"name": "g g"}, "g g"),
        ("/groups/create", {"name": "g", "retry_max": "-2"}, "is not a whole number"),
        ("/group/delete", {"name": "billing", "sure": ""}, "was not deleted"),
        ("/group/change", {"name": "never-made"}, "No broker"),
        ("/topic/send", {"name": ORDERS, "body": ""}, "The body is empty"),
        ("/topic/send", {"name": ORDERS, "body": "zz", "hex": "1"}, "is not hexadecimal"),
        ("/topic/send", {"name": ORDERS, "body": "x", "properties": "no-equals"}, "write name=value"),
        ("/topic/send", {"name": ORDERS, "body": "x", "properties": "TAGS=x"}, "is reserved; choose another"),
        ("/topic/send", {"name": "no/topic", "body": "x"}, "no/topic"),
        ("/group/reset", {"name": "never-made", "topic": ORDERS}, "never-made"),
        ("/group/reset", {"name": "billing", "topic": ORDERS, "to": "time", "time": "soon"}, "is not a time"),
        ("/message/resend", {"topic": ORDERS, "broker": "broker-a", "queue": "0", "offset": "x"}, "is not a whole number"),
        ("/message/resume", {"topic": ORDERS, "broker": "broker-a", "queue": "0", "offset": "0"}, "Only a half message"),
        ("/kv/set", {"namespace": " ", "key": "k"}, "The namespace is missing"),
        ("/kv/set", {"namespace": "n", "key": ""}, "The key is missing"),
        ("/kv/set", {"namespace": "n", "key": "k", "value": " "}, "The value is missing"),
        ("/kv/set", {"namespace": "n", "key": "k", "value": "v" * 65_537}, "at most 65536 are allowed"),
        ("/kv/set", {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "four"}, "broker-a:4;broker-b:4"),
        ("/kv/delete", {"namespace": "n", "key": "never-made", "sure": "1"}, "'n' has no key 'never-made'"),
        ("/dead/delete", {"name": "never-made", "sure": "never-made"}, "has no dead letters"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_and_what_was_written_stays(admin, path, fields, sentence):
    said = admin.post(path, **fields)
    assert said.status_code in (400, 404, 502)
    assert sentence in text_of(said)
    assert "Traceback" not in said.text


def test_a_form_that_failed_stands_there_with_what_was_written(admin):
    said = admin.post(
        "/topic/send", name=ORDERS, body="keep <this> & that", tag="t1", properties="no-equals"
    )
    assert "keep &lt;this&gt; &amp; that</textarea>" in said.text
    assert 'name="tag" value="t1"' in said.text


def test_a_message_is_sent_and_sent_once_more(admin, nameserver):
    fields = {"tag": "t", "keys": "by-hand-1 by-hand-2", "properties": "colour=red\r\nsize=8"}
    said = admin.post("/topic/send", name="topic-000", body="one\r\ntwo", **fields)
    assert "Stored in queue" in text_of(said)
    page = admin.get("/messages", by="key", topic="topic-000", key="by-hand-2")
    start = page.text.index('href="/message?') + len('href="')
    place = page.text[start : page.text.index('"', start)].replace("&amp;", "&")
    message = admin.get(place)
    assert "colour red" in text_of(message)
    assert "one\ntwo" in message.text
    fields = dict(part.split("=") for part in place.partition("?")[2].split("&"))
    said = admin.post("/message/resend", **fields)
    assert "Sent again: this is the new message" in text_of(said)
    assert "2 messages" in text_of(
        admin.get("/messages", by="key", topic="topic-000", key="by-hand-2")
    )


def test_a_message_that_is_sent_again_leaves_the_producer_of_the_send_page_alone(
    admin, cluster
):
    admin.post("/topic/send", name="topic-003", body="first", keys="alone")
    (before,) = cluster.groups.producer_connections(PRODUCER_GROUP).values()
    shown = text_of(admin.get("/producers", find=PRODUCER_GROUP.lower()))
    assert f"{PRODUCER_GROUP} {before[0].client_id} {before[0].address} broker-a 20" in shown
    assert "No producer matches" in text_of(admin.get("/producers", find="never-made"))
    page = admin.get("/messages", by="key", topic="topic-003", key="alone").text
    place = page[page.index('href="/message?') + len('href="/message?') :].partition('"')[0]
    fields = dict(part.split("=") for part in place.replace("&amp;", "&").split("&"))
    said = admin.post("/message/resend", **fields)
    assert "Sent again: this is the new message" in text_of(said)
    (after,) = cluster.groups.producer_connections(PRODUCER_GROUP).values()
    assert [each.client_id for each in after] == [each.client_id for each in before]


def test_bytes_are_sent_as_hexadecimal(admin):
    admin.post("/topic/send", name="topic-001", body="00 ff 10", hex="1", keys="bytes")
    assert "3 bytes: 00 ff 10" in text_of(
        admin.get("/messages", by="key", topic="topic-001", key="bytes")
    )


def test_a_form_that_is_sent_twice_is_done_once(admin):
    carried = hidden(admin.get("/topic", name="topic-002"))
    fields = {**carried, "name": "topic-002", "body": "once", "keys": "once-only"}
    first, second = (admin.http.post("/topic/send", data=fields) for _ in range(2))
    assert (first.status_code, second.status_code) == (303, 303)
    assert "This form was sent before; it was not applied again." in text_of(
        admin.get("/topics")
    )
    assert "1 message" in text_of(
        admin.get("/messages", by="key", topic="topic-002", key="once-only")
    )


def test_a_group_comes_changes_and_goes(admin, cluster):
    said = admin.post(
        "/groups/create", name="made-group", consume="1", retry_max="3", retry_queues="2"
    )
    assert "The group made-group is created." in text_of(said)
    config = cluster.groups.configs()["made-group"]
    assert (config.retry_max_times, config.retry_queues) == (3, 2)
    admin.post(
        "/group/change", name="made-group", broadcast="1", retry_max="-1", retry_queues="1"
    )
    config = cluster.groups.configs()["made-group"]
    assert config.retry_max_times == -1
    said = admin.post("/group/delete", name="made-group", sure="made-group")
    assert "is deleted, with its offsets" in text_of(said)
    assert "made-group" not in cluster.groups.configs()


def test_a_reset_moves_as_its_preview_said(admin, cluster, nameserver):
    cluster.groups.create(GroupConfig("moved"))
    with PullConsumer(nameserver, group="moved") as consumer:
        queues = consumer.queues("small")
        for queue in queues:
            consumer.commit(queue, 5)
    preview = text_of(admin.get("/group/preview", name="moved", topic="small", to="latest"))
    assert preview.count("skipped") == len(queues)
    assert set(cluster.offsets.committed("moved", "small").values()) == {5}
    said = admin.post("/group/reset", name="moved", topic="small", to="latest")
    assert (
        f"The group moved continues at the end in {len(queues)} queues of topic small."
        in text_of(said)
    )
    assert sum(cluster.offsets.lag("moved", "small").values()) == 0


def test_the_audit_knows_who_did_what_and_how_it_ended(admin, reader):
    admin.post("/topics/create", name="audited/1")
    reader.post("/topic/delete", name="orders", sure="orders")
    text = text_of(admin.get("/audit"))
    assert "admin 127.0.0.1 create topic audited/1" in text
    assert "reader 127.0.0.1 delete topic refused: may only read" in text
    lines = (admin.served.folder / "data" / "audit.jsonl").read_text().splitlines()
    assert any('"action": "create topic", "of": "audited/1"' in line for line in lines)
