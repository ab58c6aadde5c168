"""A connection to a master at its slave, by bytes and a clock that the test turns."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.replication import (
    CHALLENGE,
    FRAME_BODY_MAX,
    FRAME_HEAD,
    MAGIC,
    NEEDS_PROOF,
    NO_PROOF,
    REPLY,
    REPORT,
    VERSION,
    WELCOME,
    Verdict,
)
from cometmq.model.errors import CopyingStopped, LinkError
from cometmq.replication.master_end import SECOND_WORD_SECONDS, MasterEnd, Span
from cometmq.replication.pace import Pace
from cometmq.replication.slave_end import JOINT_SIZE, SlaveEnd, joint_start
from cometmq.replication.terms import LinkTerms, LogBounds

SECRET = b"0123456789abcdef"
FILE_SIZE = 1 << 30
LOG = bytes(range(256)) * 40
BOUNDS = LogBounds(0, len(LOG), len(LOG), len(LOG), FILE_SIZE)


def slave_end(start: int, end: int, terms: LinkTerms | None = None) -> SlaveEnd:
    return SlaveEnd(
        terms or LinkTerms(),
        broker_id=3,
        start=start,
        end=end,
        file_size=FILE_SIZE,
        chance=b"s" * 32,
        now=0.0,
    )


def master_end(terms: LinkTerms | None = None) -> MasterEnd:
    return MasterEnd(terms or LinkTerms(frame_size=1_000), chance=b"m" * 32, now=0.0)


def challenged(end: SlaveEnd) -> SlaveEnd:
    """Up to the welcome of a master of ours."""
    end.outgoing(0, 0.0)
    assert not list(end.received(CHALLENGE.pack(MAGIC, VERSION, 0, b"m" * 32), 0.0))
    assert len(end.outgoing(0, 0.0)) == REPLY.size
    return end


def welcome(oldest: int, end: int, file_size: int = FILE_SIZE) -> bytes:
    return WELCOME.pack(MAGIC, VERSION, Verdict.WELCOME, oldest, end, end, file_size, NO_PROOF)


def frame(offset: int, body: bytes) -> bytes:
    return FRAME_HEAD.pack(offset, len(body)) + body


@pytest.mark.parametrize(
    ("oldest", "end", "start"),
    [
        (0, 0, 0),
        (0, 100, 0),
        (0, FILE_SIZE, FILE_SIZE - JOINT_SIZE),
        (0, FILE_SIZE + 10, FILE_SIZE),
        (FILE_SIZE, FILE_SIZE + 100, FILE_SIZE),
        (0, 3 * JOINT_SIZE, 2 * JOINT_SIZE),
        (7 * FILE_SIZE, 7 * FILE_SIZE, 7 * FILE_SIZE),
    ],
)
def test_a_slave_asks_from_the_last_record_on_within_one_file(oldest, end, start):
    assert joint_start(oldest, end, FILE_SIZE) == start


def test_it_says_where_it_begins_twice_which_a_java_master_takes_for_its_report():
    assert slave_end(40, 100).outgoing(100, 0.0) == REPORT.pack(40) * 2


def test_nothing_behind_the_joint_is_acknowledged_before_it_fits():
    end = slave_end(40, 100)
    end.outgoing(100, 0.0)
    pieces = list(end.received(frame(40, LOG[40:110]), 0.0))
    assert [(piece.offset, bytes(piece.content), piece.is_known) for piece in pieces] == [
        (40, LOG[40:100], True),
        (100, LOG[100:110], False),
    ]
    assert end.outgoing(100, 0.0) == b""
    end.compared(99)
    assert end.outgoing(100, 0.0) == b""
    end.compared(100)
    assert end.outgoing(100, 0.0) == REPORT.pack(100)
    assert end.outgoing(100, 4.9) == b""
    assert end.outgoing(100, 5.0) == REPORT.pack(100)
    assert end.outgoing(110, 5.0) == REPORT.pack(110)


def test_a_log_that_was_truncated_behind_what_it_acknowledged_is_acknowledged_no_more():
    """Each heartbeat repeated the old end, and the master counted a copy that was gone."""
    end = slave_end(40, 100)
    end.outgoing(100, 0.0)
    list(end.received(frame(40, LOG[40:110]), 0.0))
    end.compared(100)
    assert end.outgoing(110, 0.0) == REPORT.pack(110)
    with pytest.raises(LinkError, match="truncated to physical offset 70, after 110 had"):
        end.outgoing(70, 5.0)


@pytest.mark.parametrize("step", [1, 5, 13, 4_096])
def test_what_comes_is_the_same_however_it_is_cut(step):
    content = frame(0, LOG[:700]) + frame(700, b"") + frame(700, LOG[700:])
    end = slave_end(0, 0)
    found = b""
    for at in range(0, len(content), step):
        for piece in end.received(content[at : at + step], 0.0):
            assert piece.offset == len(found)
            found += bytes(piece.content)
    assert found == LOG
    assert end.is_java


@pytest.mark.parametrize("step", [1, 7, 13, 100_000])
@pytest.mark.parametrize("known", [0, 300, 700, 900])
def test_log_comes_first_and_in_one_piece_where_as_much_is_received_as_is_wanted(step, known):
    content = frame(0, LOG[:700]) + frame(700, b"") + frame(700, LOG[700:])
    end, at, found, pieces = slave_end(0, known), 0, b"", 0
    while at < len(content):
        wanted = end.log_wanted or end.head_wanted or FRAME_HEAD.size
        received = memoryview(bytearray(content[at : at + min(wanted, step)]))
        is_log = end.log_wanted > 0
        taken = list(end.received(received, 0.0))
        assert len(taken) == is_log
        for piece in taken:
            assert piece.offset == len(found)
            assert piece.content.obj is received.obj
            assert piece.content == received[: len(piece.content)]
            assert piece.is_known == (piece.offset < known)
            found += piece.content
            pieces += 1
        at += len(received)
    assert found == LOG
    assert not end.is_within_frame
    if step > len(LOG):
        assert pieces == (2 if known in {0, 700} else 3)


def test_a_frame_of_which_a_part_has_come_is_told_from_one_that_has_not_begun():
    end, content = slave_end(0, 0), frame(0, LOG[:700])
    seen = []
    for cut in (content[:11], content[11:12], content[12:13], content[13:711], content[711:]):
        list(end.received(cut, 0.0))
        seen.append(end.is_within_frame)
    assert seen == [False, False, True, True, False]


@pytest.mark.parametrize(
    "said",
    [
        frame(0, b"")[:8] + (-1).to_bytes(4, signed=True),
        FRAME_HEAD.pack(0, FRAME_BODY_MAX + 1),
        FRAME_HEAD.pack(-1, 10),
        frame(50, LOG[50:60]),
    ],
)
def test_a_frame_that_cannot_be_closes(said):
    end = slave_end(40, 100)
    with pytest.raises(LinkError):
        list(end.received(said, 0.0))


@pytest.mark.parametrize(
    ("oldest", "end", "size", "said"),
    [
        (0, 99, FILE_SIZE, "ahead: this log ends at 100, and its master's at 99"),
        (
            41,
            200,
            FILE_SIZE,
            "behind: this log ends at 100, and its master has nothing before 41",
        ),
        (0, 200, 1 << 20, "mappedFileSizeCommitLog=1073741824"),
    ],
)
def test_3349_a_log_that_is_no_beginning_of_the_masters_stops_the_copying(
    oldest, end, size, said
):
    slave = challenged(slave_end(40, 100))
    with pytest.raises(CopyingStopped, match=said):
        list(slave.received(welcome(oldest, end, size), 0.0))


def test_3388_a_java_master_that_has_nothing_where_this_log_has_something_stops_it_too():
    end = slave_end(40, 100)
    assert not list(end.received(frame(40, b""), 5.0))
    with pytest.raises(CopyingStopped, match="ahead or behind"):
        list(end.received(frame(40, b""), 10.0))


def test_a_java_master_under_its_flow_control_sends_empty_frames_and_stops_nobody():
    end = slave_end(40, 100)
    for second in range(30):
        for part in range(10):
            assert not list(end.received(frame(end.next, b""), second + part / 10))
        (piece,) = end.received(frame(end.next, LOG[end.next : end.next + 1]), second + 1.0)
        assert piece.is_known
    assert not list(end.received(frame(end.next, b""), 31.0))
    with pytest.raises(CopyingStopped, match="ahead or behind"):
        list(end.received(frame(end.next, b""), 34.0))


def test_an_idle_java_master_stops_nobody_who_has_joined():
    end = slave_end(0, 0)
    for seconds in range(5, 60, 5):
        assert not list(end.received(frame(0, b""), float(seconds)))
        end.tick(float(seconds))
    with pytest.raises(LinkError, match="the master sent nothing for 20 s"):
        end.tick(75.0)


def test_the_first_frame_of_a_java_master_says_where_an_empty_log_begins():
    end = slave_end(0, 0)
    (piece,) = end.received(frame(FILE_SIZE, LOG), 0.0)
    assert (piece.offset, end.next) == (FILE_SIZE, FILE_SIZE + len(LOG))
    with pytest.raises(LinkError):
        list(end.received(frame(0, LOG), 0.0))


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (SECRET, None, "the master's proof of the secret is wrong"),
        (SECRET, SECRET[::-1], "rejected the proof of the secret"),
    ],
)
def test_both_prove_that_they_know_the_secret(ours, theirs, said):
    slave, master = (
        slave_end(0, 0, LinkTerms(secret=ours)),
        master_end(LinkTerms(secret=theirs)),
    )
    master.received(slave.outgoing(0, 0.0), BOUNDS, 0.0)
    list(slave.received(master.outgoing(0.0), 0.0))
    with suppress(LinkError):
        master.received(slave.outgoing(0, 0.0), BOUNDS, 0.0)
    with pytest.raises(LinkError, match=said):
        list(slave.received(master.outgoing(0.0), 0.0))


def test_who_has_no_secret_is_told_that_one_is_asked_for():
    challenge = CHALLENGE.pack(MAGIC, VERSION, NEEDS_PROOF, b"m" * 32)
    with pytest.raises(LinkError, match="requires a secret: set haSecretFile"):
        list(slave_end(0, 0).received(challenge, 0.0))


def test_with_a_secret_a_java_master_is_not_believed():
    with pytest.raises(LinkError, match="a Java master cannot send one"):
        list(slave_end(0, 0, LinkTerms(secret=SECRET)).received(frame(0, LOG), 0.0))


@given(
    start=st.integers(0, len(LOG)),
    secret=st.sampled_from([None, SECRET]),
    cuts=st.lists(st.integers(30, 3_000), min_size=1, max_size=20),
)
def test_two_ends_copy_a_log_however_their_bytes_are_cut(start, secret, cuts):
    terms = LinkTerms(frame_size=700, secret=secret)
    joint = max(start - 100, 0)
    slave, master = slave_end(joint, start, terms), master_end(terms)
    copied, to_master, to_slave, turn = bytearray(LOG[:joint]), b"", b"", 0
    while master.acked < len(LOG):
        turn += 1
        assert turn < 10_000
        cut = cuts[turn % len(cuts)]
        to_master += slave.outgoing(len(copied), 0.0)
        master.received(to_master[:cut], BOUNDS, 0.0)
        to_master = to_master[cut:]
        to_slave += master.outgoing(0.0)
        if len(to_slave) < 2_000 and (span := master.wanted(BOUNDS)) is not None:
            to_slave += master.frame_head(span.size, 0.0)
            to_slave += LOG[span.offset : span.offset + span.size]
        for piece in slave.received(to_slave[:cut], 0.0):
            assert piece.is_known is (piece.offset < start)
            copied += piece.content
            slave.compared(len(copied))
        to_slave = to_slave[cut:]
    assert bytes(copied) == LOG
    assert master.broker_id == 3


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_garbage_at_either_end_is_a_typed_error_and_no_byte_of_the_log(pieces):
    master = master_end()
    try:
        for now, piece in enumerate(pieces):
            master.received(piece, BOUNDS, float(now))
            master.tick(BOUNDS, now + SECOND_WORD_SECONDS / 2)
    except LinkError:
        pass
    else:
        assert master.acked <= len(LOG)
    slave = slave_end(40, 100)
    try:
        for now, piece in enumerate(pieces):
            for found in slave.received(piece, float(now)):
                assert found.offset >= 40
    except LinkError:
        pass


MASTER_LOG = LogBounds(oldest=1_000, end=5_000, sendable=4_000, flushed=4_000, file_size=1_000)
CHANCE = b"m" * 32
TERMS = LinkTerms(frame_size=2_500)


def master(terms: LinkTerms = TERMS) -> MasterEnd:
    return MasterEnd(terms, chance=CHANCE, now=0.0)


def plain(start: int) -> MasterEnd:
    """A Java slave that reported this offset."""
    end = master()
    end.received(REPORT.pack(start), MASTER_LOG, 0.0)
    end.tick(MASTER_LOG, 1.0)
    return end


@pytest.fixture
def end():
    return master()


def test_nobody_gets_anything_before_it_has_spoken(end):
    end.tick(MASTER_LOG, 10.0)
    assert (end.outgoing(10.0), end.wanted(MASTER_LOG), end.heartbeat(10.0)) == (
        b"",
        None,
        None,
    )


def test_a_java_slave_gets_frames_from_its_offset_on_and_heartbeats(end):
    end.received(REPORT.pack(2_000), MASTER_LOG, 0.0)
    end.tick(MASTER_LOG, 0.9)
    assert end.wanted(MASTER_LOG) is None, "one of ours may still say its second word"
    end.tick(MASTER_LOG, 1.0)
    assert end.outgoing(1.0) == b""
    assert end.wanted(MASTER_LOG) == Span(2_000, 2_000)
    assert end.frame_head(1_500, 1.0) == FRAME_HEAD.pack(2_000, 1_500)
    assert end.frame_head(500, 1.0) == FRAME_HEAD.pack(3_500, 500)
    assert end.wanted(MASTER_LOG) is None, "what is not flushed is not sent"
    assert end.heartbeat(5.9) is None
    assert end.heartbeat(6.0) == FRAME_HEAD.pack(4_000, 0)
    assert end.wanted(MASTER_LOG._replace(sendable=9_000)) == Span(4_000, 2_500)


def test_a_slave_with_a_pace_gets_pieces_that_fit_it():
    end = plain(2_000)
    end.pace = Pace(40_000)
    assert end.wanted(MASTER_LOG) == Span(2_000, 1_000)
    assert end.pace.wait(1_000, 1.9) == 0
    end.frame_head(1_000, 1.9)
    end.frame_head(1_000, 1.9)
    assert end.pace.wait(1_000, 1.9) > 0, "what was sent counts"
    assert end.heartbeat(6.9) is not None, "a sign of life costs nothing"
    end.pace = None
    assert end.wanted(MASTER_LOG._replace(sendable=9_000)) == Span(4_000, 2_500)


def test_3661_an_empty_slave_gets_everything_from_the_oldest_byte_on():
    assert plain(0).wanted(MASTER_LOG) == Span(1_000, 2_500)


def test_the_last_whole_report_of_a_read_counts_however_it_is_cut():
    end = plain(2_000)
    end.frame_head(2_000, 1.0)
    content = REPORT.pack(2_100) + REPORT.pack(2_200) + REPORT.pack(4_000)
    for at in range(len(content)):
        end.received(content[at : at + 1], MASTER_LOG, 1.0)
    assert end.acked == 4_000


@pytest.mark.parametrize("report", [-1, -(1 << 63), 2_001, 1 << 62, 1_999])
def test_3015_an_acknowledgement_that_cannot_be_true_closes_and_frees_nothing(report):
    end = plain(2_000)
    with pytest.raises(LinkError):
        end.received(REPORT.pack(report), MASTER_LOG, 1.0)
    assert end.acked == 2_000


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (REPORT.pack(-1), "up to physical offset -1"),
        (REPORT.pack(6_000) + b"anything", "up to physical offset 6000"),
        (b"CMHA\0\0\0\0", "which only a master may send first"),
        (b"GET / HTTP/1.1\r\n", "ends at 5000"),
    ],
)
def test_what_no_slave_says_first_closes(first, said):
    with pytest.raises(LinkError, match=said):
        master().received(first, MASTER_LOG, 0.0)


@pytest.mark.parametrize(("start", "said"), [(6_000, "ahead"), (500, "starts at 1000")])
def test_a_java_slave_whose_log_does_not_fit_gets_nothing_and_the_operator_a_line(
    end, start, said
):
    end.received(REPORT.pack(start), MASTER_LOG, 0.0)
    with pytest.raises(LinkError, match=said):
        end.tick(MASTER_LOG, 1.0)
    assert end.wanted(MASTER_LOG) is None


def test_1082_any_byte_is_a_sign_of_life_and_silence_closes():
    end = plain(2_000)
    end.received(REPORT.pack(2_000)[:1], MASTER_LOG, 15.0)
    end.tick(MASTER_LOG, 34.9)
    with pytest.raises(LinkError, match="it sent nothing for 20 s"):
        end.tick(MASTER_LOG, 35.0)


def test_a_slave_of_ours_is_told_where_the_log_begins_and_ends(end):
    end.received(REPORT.pack(2_000) * 2, MASTER_LOG, 0.0)
    assert end.outgoing(0.0) == CHALLENGE.pack(MAGIC, VERSION, 0, CHANCE)
    assert end.wanted(MASTER_LOG) is None
    end.received(REPLY.pack(MAGIC, VERSION, 0, 7, b"s" * 32, NO_PROOF), MASTER_LOG, 0.0)
    assert end.outgoing(0.0) == WELCOME.pack(
        MAGIC, VERSION, Verdict.WELCOME, 1_000, 5_000, 4_000, 1_000, NO_PROOF
    )
    assert (end.broker_id, end.acked, end.wanted(MASTER_LOG)) == (7, 2_000, Span(2_000, 2_000))


@pytest.mark.parametrize("start", [500, 6_000])
def test_one_of_ours_that_does_not_fit_is_welcomed_to_see_why_and_counts_for_nothing(
    end, start
):
    end.received(REPORT.pack(start) * 2, MASTER_LOG, 0.0)
    end.received(REPLY.pack(MAGIC, VERSION, 0, 7, b"s" * 32, NO_PROOF), MASTER_LOG, 0.0)
    assert (end.wanted(MASTER_LOG), end.acked) == (None, -1)


def test_1893_with_a_secret_nobody_gets_a_byte_of_the_log_without_a_proof():
    terms = LinkTerms(secret=SECRET)
    silent = master(terms)
    silent.received(REPORT.pack(2_000), MASTER_LOG, 0.0)
    with pytest.raises(LinkError, match="sent no proof of the secret"):
        silent.tick(MASTER_LOG, 1.0)
    wrong = master(terms)
    wrong.received(REPORT.pack(2_000) * 2, MASTER_LOG, 0.0)
    assert wrong.outgoing(0.0) == CHALLENGE.pack(MAGIC, VERSION, NEEDS_PROOF, CHANCE)
    with pytest.raises(LinkError, match="proof of the secret is wrong"):
        wrong.received(REPLY.pack(MAGIC, VERSION, 0, 7, b"s" * 32, b"x" * 32), MASTER_LOG, 0.0)
    verdict = WELCOME.unpack(wrong.outgoing(0.0))[2:7]
    assert verdict == (Verdict.NOT_PROVEN, 0, 0, 0, 0), "not even where the log ends"
    assert wrong.wanted(MASTER_LOG) is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (REPLY.pack(MAGIC, 9, 0, 7, b"s" * 32, NO_PROOF), "version 9"),
        (REPLY.pack(MAGIC, VERSION, 0, 0, b"s" * 32, NO_PROOF), "broker id 0"),
        (REPORT.pack(2_000), "did not continue with CMHA"),
    ],
)
def test_a_wrong_answer_to_the_challenge_closes(end, reply, said):
    end.received(REPORT.pack(2_000) * 2, MASTER_LOG, 0.0)
    with pytest.raises(LinkError, match=said):
        end.received(reply, MASTER_LOG, 0.0)
