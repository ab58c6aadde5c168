"""The files of a member of a group, how members recognize each other, and the bytes of a log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cometmq.broker.replication.group.greeting import (
    Challenge,
    Hello,
    KnownPlaces,
    OwnGreeting,
    Unlisted,
    refusal,
)
from cometmq.broker.replication.group.log_bytes import GROUP_TOPIC, GroupLogBytes
from cometmq.broker.replication.group.member_files import (
    MemberFiles,
    MemberState,
    decode_terms,
    encode_terms,
)
from cometmq.broker.replication.group.running_member import GroupPlace, open_member
from cometmq.codec.record import decode_record
from cometmq.model.errors import CodecError, LinkError, SettingsError, StoreDamaged
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.history import Row
from cometmq.replication.group.member import HardState
from cometmq.replication.group.messages import MemberPlace, Membership
from cometmq.replication.group.wire import Content, GroupFrame, GroupFrames
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, open_store, put

VOTERS = ("n0", "n1", "n2")
ROWS = (Row(0, 1), Row(500, 4))
PLACE = GroupPlace("g", "n0", VOTERS)
CHANGED = Membership(
    ("n0", "n2"), ("n3",), (MemberPlace("n0", 1, "a:1"), MemberPlace("n3", 4, "[::1]:4"))
)


def state(**hard: object) -> MemberState:
    return MemberState("g", "n0", VOTERS, HardState(**hard), "boot")  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "config").mkdir()
    return MemberFiles(str(tmp_path), RealDisk())


def load(files: MemberFiles, group: str = "g", own: str = "n0") -> MemberState | None:
    return files.load(group=group, own=own)


def test_what_was_saved_is_loaded(files):
    assert load(files) is None
    kept = state(term=7, voted_for="n2", run=1 << 41, is_sure=False)
    files.save(kept)
    assert load(files) == kept
    changed = replace(kept, memberships=(Row(0, Membership(VOTERS)), Row(70, CHANGED)))
    files.save(changed)
    assert load(files) == changed
    files.save_terms(ROWS)
    assert files.load_terms() == ROWS


def test_terms_have_the_form_of_rocketmq():
    assert encode_terms(ROWS).splitlines()[0] == b"2"
    assert encode_terms(ROWS).splitlines()[2:] == [b"1-0", b"4-500"]
    assert decode_terms(b"2\n0\n1-0\n4-500\n") == ROWS  # RocketMQ does not check the CRC 0.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"2\n",
        b"1\n0\n1-0\n4-500\n",
        b"2\n7\n1-0\n4-500\n",
        b"2\n0\n4-0\n1-500\n",
        b"1\n0\nx-0\n",
    ],
)
def test_damaged_terms_are_refused_with_the_repair(files, tmp_path, content):
    with pytest.raises(CodecError):
        decode_terms(content)
    (tmp_path / "epochFileCheckpoint").write_bytes(content)
    with pytest.raises(StoreDamaged, match="start it with an empty one"):
        files.load_terms()


def test_every_damaged_byte_of_a_vote_is_noticed(files, tmp_path):
    files.save(state(term=7, voted_for="n2", run=3))
    path = tmp_path / "config/brokerGroup.json"
    content = path.read_bytes()
    for place in range(len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(StoreDamaged, match="start it with an empty one"):
            load(files)
    path.write_bytes(b"")
    with pytest.raises(StoreDamaged):
        load(files)


def test_a_run_has_a_larger_number_than_every_run_before_and_a_new_directory_is_not_sure(
    files, tmp_path
):
    store = open_store(tmp_path, clock=HandClock())
    _, first = open_member(store, files, PLACE, is_flushed=False, now_ms=1_000)
    assert first.hard == HardState(run=1_000, is_sure=False)
    files.save(first)
    _, second = open_member(store, files, PLACE, is_flushed=False, now_ms=500)
    assert second.hard.run == 1_001
    store.close()


@pytest.mark.parametrize(
    ("boot", "is_flushed", "is_clean", "is_sure"),
    [
        ("this", False, False, True),  # Only the process ended.
        ("another", False, False, False),  # The machine lost what it had not flushed.
        ("another", True, False, True),
        ("another", False, True, True),
        ("", False, False, False),  # The system names no boots.
    ],
)
def test_a_member_is_sure_unless_its_machine_stopped_without_a_flush(
    files, tmp_path, monkeypatch, boot, is_flushed, is_clean, is_sure
):
    monkeypatch.setattr(MemberFiles, "boot_id", lambda _files: "this")
    store = open_store(tmp_path, clock=HandClock())
    files.save(MemberState("g", "n0", VOTERS, HardState(1, "n0", 5), boot))
    monkeypatch.setattr(type(store), "was_clean", is_clean)
    _, opened = open_member(store, files, PLACE, is_flushed=is_flushed, now_ms=0)
    assert opened.hard.is_sure is is_sure
    store.close()


def test_a_store_with_messages_that_was_never_a_members_is_refused(files, tmp_path):
    store = open_store(tmp_path, clock=HandClock())
    put(store, b"a")
    with pytest.raises(SettingsError, match="has never been a member of a group"):
        open_member(store, files, PLACE, is_flushed=False, now_ms=0)
    store.close()


def opened_after_a_change(
    files, tmp_path, own: str, given: tuple[str, ...], change_at: int = 100
):
    """A member starts whose log has, from an offset on, other members than the group began with."""
    store = open_store(tmp_path, clock=HandClock())
    put(store, b"x" * 600)
    kept = MemberState("g", own, VOTERS, HardState(1, "n0", 5), "", (Row(change_at, CHANGED),))
    files.save(kept)
    files.save_terms((Row(0, 1),))
    try:
        return open_member(store, files, GroupPlace("g", own, given), is_flushed=True, now_ms=0)
    finally:
        store.close()


def test_members_of_the_log_apply_and_not_an_old_list(files, tmp_path, caplog):
    log, opened = opened_after_a_change(files, tmp_path, "n0", VOTERS)
    assert log.membership == CHANGED
    assert opened.memberships == (Row(100, CHANGED),)
    assert opened.voters == VOTERS
    assert "dLegerPeers has the members n0, n1, n2" in caplog.text
    assert "changed to n0, n2, n3, which applies" in caplog.text
    assert "was removed" not in caplog.text


def test_a_list_that_was_corrected_is_accepted_and_a_removed_member_says_that_it_is_one(
    files, tmp_path, caplog
):
    opened_after_a_change(files, tmp_path, "n1", ("n3", "n2", "n0"))
    assert "dLegerPeers" not in caplog.text
    assert "n1 was removed from its group" in caplog.text


def test_a_change_that_a_crash_removed_from_the_log_is_forgotten(files, tmp_path):
    with pytest.raises(SettingsError, match="this group began with n0, n1, n2"):
        opened_after_a_change(files, tmp_path, "n0", ("n0", "n2", "n3"), change_at=9_000)
    (tmp_path / "b/config").mkdir(parents=True)
    other = MemberFiles(str(tmp_path / "b"), RealDisk())
    log, opened = opened_after_a_change(other, tmp_path / "b", "n0", VOTERS, change_at=9_000)
    assert log.membership == Membership(VOTERS)
    assert opened.memberships == ()


# --- how members recognize each other


def greeting(own: str, secret: bytes | None = None, group: str = "g") -> OwnGreeting:
    return OwnGreeting(group, own, 5, "127.0.0.1:1", secret)


def frame_of(parts: list[Content]) -> GroupFrame:
    (frame,) = GroupFrames().received(b"".join(parts))
    return frame


def greet(here: OwnGreeting, there: OwnGreeting, peer: str = "n0") -> object:
    """`there` connects to `here`, which it takes for `peer`."""
    challenge, hello = Challenge(here), Hello(there, peer)
    answer = hello.answer(frame_of(challenge.challenge()))
    assert answer is not None
    known = KnownPlaces(CHANGED.places, since=7, term=3)
    told, welcome = challenge.hello(frame_of(answer), frozenset(VOTERS), known)
    assert hello.answer(frame_of(welcome)) is None
    assert hello.known == known
    return told


@pytest.mark.parametrize("secret", [None, b"s" * 16])
def test_two_members_recognize_each_other(secret):
    assert greet(greeting("n0", secret), greeting("n1", secret)) == ("n1", 5, "127.0.0.1:1")


@pytest.mark.parametrize(
    ("there", "peer", "said"),
    [
        (greeting("n1", b"t" * 16), "n0", "does not know the secret"),
        (greeting("n1", None), "n0", "does not know the secret"),
        (greeting("n9", b"s" * 16), "n0", "no other member n9"),
        (greeting("n0", b"s" * 16), "n0", "no other member n0"),
        (greeting("n1", b"s" * 16), "n2", "member n0 of the group g answers there"),
        (greeting("n1", b"s" * 16, "h"), "n0", "of the group g answers there"),
    ],
)
def test_a_stranger_is_refused(there, peer, said):
    with pytest.raises(LinkError, match=said):
        greet(greeting("n0", b"s" * 16), there, peer)


@pytest.mark.parametrize("kind", [LinkError, Unlisted])
def test_a_refused_member_learns_whether_it_is_in_the_list(kind):
    with pytest.raises(LinkError, match="it refuses this member: why") as refused:
        Hello(greeting("n1"), "n0").answer(frame_of(refusal(kind("why"))))
    assert type(refused.value) is kind


def log_of(
    terms: tuple[Row[int], ...], change_at: int, commit: int, begin: int = 0
) -> GroupLog:
    log = GroupLog(
        0,
        900,
        membership=Membership(VOTERS),
        terms=terms,
        memberships=[Row(change_at, CHANGED)],
    )
    log.commit = commit
    log.drop_before(begin)
    return log


@pytest.mark.parametrize(
    ("theirs", "own", "is_older"),
    [
        # The own change is one of an old leader, and was never committed.
        (log_of((Row(0, 1), Row(500, 3)), 600, 700), log_of((Row(0, 1),), 800, 500), False),
        (log_of((Row(0, 1),), 300, 400), log_of((Row(0, 1),), 800, 500), False),
        # Theirs is.
        (log_of((Row(0, 1),), 800, 500), log_of((Row(0, 1), Row(500, 3)), 600, 700), True),
        (log_of((Row(0, 1),), 300, 400), log_of((Row(0, 1),), 600, 700), True),
        (log_of((Row(0, 1),), 600, 600), log_of((Row(0, 1),), 600, 700), False),
        # Retention has deleted the bytes of the later change, and with them their term.
        (
            log_of((Row(0, 1), Row(200, 2), Row(400, 3)), 300, 800, begin=700),
            log_of((Row(0, 1),), 100, 150), False,
        ),
    ],
)  # fmt: skip
def test_a_list_of_members_is_older_than_a_later_change_that_is_committed(
    theirs, own, is_older
):
    assert KnownPlaces.of(theirs).is_older(own) is is_older


def test_a_member_that_does_not_know_the_secret_gets_no_messages():
    hello = Hello(greeting("n1", b"s" * 16), "n0")
    false = Challenge(greeting("n0"))
    assert hello.answer(frame_of(false.challenge())) is not None
    with pytest.raises(LinkError, match="does not know the secret"):
        hello.answer(GroupFrame(b'{"type":"welcome","proof":"00"}', b""))


# --- the bytes of a log


def test_parts_end_behind_records_and_never_behind_the_blank_end_of_a_file(tmp_path):
    store = open_store(tmp_path, clock=HandClock())
    ends = [0]
    for number in range(60):
        ends.append(put(store, b"x" * (700 + number)))
        store.dispatch_pending()
    assert store.max_offset > 2 * SMALL.commitlog_file_size
    log, end, file_size = (
        GroupLogBytes(store, HandClock()),
        store.max_offset,
        SMALL.commitlog_file_size,
    )
    for begin in ends[:-1]:
        for size in (1, 600, 3_000, 20_000, 1 << 20):
            limit = min(begin + size, end)
            cut = log.cut(begin, limit)
            # A part ends with its file, unless it is all that is new.
            file_end = (begin // file_size + 1) * file_size
            last = limit if limit == end else min(limit, file_end)
            fitting = [each for each in ends if begin < each <= last]
            after = next(each for each in ends if each > begin)
            assert cut == (fitting[-1] if fitting else after)
            assert len(log.read(begin, cut)) == cut - begin
    store.close()


def test_each_of_two_members_far_behind_gets_bytes_that_are_not_in_memory(
    tmp_path, monkeypatch
):
    settings = replace(SMALL, commitlog_file_size=1 << 20, warm_tail_bytes=0)
    store = open_store(tmp_path, settings, clock=HandClock())
    ends = [put(store, b"x" * 700) for _ in range(200)]
    store.dispatch_pending()
    monkeypatch.setattr(RealDisk, "pread_nowait", lambda *_: None)
    log = GroupLogBytes(store, HandClock())
    for begin in (0, ends[10]):
        assert log.cut(begin, ends[-2]) == begin
    for begin in (0, ends[10]):
        end = log.cut(begin, ends[-2])
        assert end in ends
        assert begin < end <= begin + (64 << 10)
    store.close()


def test_the_log_of_a_leader_can_be_copied_record_by_record_with_its_own_records(tmp_path):
    store = open_store(tmp_path / "a", clock=HandClock())
    copy = open_store(tmp_path / "b", clock=HandClock())
    log, other = GroupLogBytes(store, HandClock()), GroupLogBytes(copy, HandClock())
    for term in range(1, 200):
        offset = store.max_offset
        left = memoryview(log.group_record(offset, "g", term, Membership(VOTERS)))
        while left:
            end = log.append(offset, left)
            left, offset = left[end - offset :], end
        store.dispatch_pending()
    assert decode_record(bytes(log.read(0, 300))).topic == GROUP_TOPIC
    assert store.max_offset > SMALL.commitlog_file_size
    assert not store.queues_of(GROUP_TOPIC)
    begin = 0
    while begin < store.max_offset:
        end = log.cut(begin, min(begin + 1_000, store.max_offset))
        left = memoryview(log.read(begin, end))
        while left:
            done = other.append(begin, left)
            left, begin = left[done - begin :], done
        copy.dispatch_pending()
    assert copy.max_offset == store.max_offset
    assert other.read(0, copy.max_offset) == log.read(0, store.max_offset)
    store.close()
    copy.close()
