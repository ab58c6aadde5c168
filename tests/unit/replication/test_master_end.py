"""A slave's connection at its master, by bytes and a clock that the test turns."""

import pytest

from cometmq.codec.replication import (
    CHALLENGE,
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
from cometmq.model.errors import LinkError
from cometmq.replication.master_end import MasterEnd, Span
from cometmq.replication.pace import Pace
from cometmq.replication.terms import LinkTerms, LogBounds

LOG = LogBounds(oldest=1_000, end=5_000, sendable=4_000, flushed=4_000, file_size=1_000)
CHANCE = b"m" * 32
TERMS = LinkTerms(frame_size=2_500)
SECRET = b"0123456789abcdef"


def master_end(terms: LinkTerms = TERMS) -> MasterEnd:
    return MasterEnd(terms, chance=CHANCE, now=0.0)


def plain(start: int) -> MasterEnd:
    """A Java slave that reported this offset."""
    end = master_end()
    end.received(REPORT.pack(start), LOG, 0.0)
    end.tick(LOG, 1.0)
    return end


def test_nobody_gets_anything_before_it_has_spoken():
    end = master_end()
    end.tick(LOG, 10.0)
    assert (end.outgoing(10.0), end.wanted(LOG), end.heartbeat(10.0)) == (b"", None, None)


def test_a_java_slave_gets_frames_from_its_offset_on_and_heartbeats():
    end = master_end()
    end.received(REPORT.pack(2_000), LOG, 0.0)
    end.tick(LOG, 0.9)
    assert end.wanted(LOG) is None, "one of ours may still say its second word"
    end.tick(LOG, 1.0)
    assert end.outgoing(1.0) == b""
    assert end.wanted(LOG) == Span(2_000, 2_000)
    assert end.frame_head(1_500, 1.0) == FRAME_HEAD.pack(2_000, 1_500)
    assert end.frame_head(500, 1.0) == FRAME_HEAD.pack(3_500, 500)
    assert end.wanted(LOG) is None, "what is not flushed is not sent"
    assert end.heartbeat(5.9) is None
    assert end.heartbeat(6.0) == FRAME_HEAD.pack(4_000, 0)
    assert end.wanted(LOG._replace(sendable=9_000)) == Span(4_000, 2_500)


def test_a_slave_with_a_pace_gets_pieces_that_fit_it():
    end = plain(2_000)
    end.pace = Pace(40_000)
    assert end.wanted(LOG) == Span(2_000, 1_000)
    assert end.pace.wait(1_000, 1.9) == 0
    end.frame_head(1_000, 1.9)
    end.frame_head(1_000, 1.9)
    assert end.pace.wait(1_000, 1.9) > 0, "what was sent counts"
    assert end.heartbeat(6.9) is not None, "a sign of life costs nothing"
    end.pace = None
    assert end.wanted(LOG._replace(sendable=9_000)) == Span(4_000, 2_500)


def test_3661_an_empty_slave_gets_everything_from_the_oldest_byte_on():
    assert plain(0).wanted(LOG) == Span(1_000, 2_500)


def test_the_last_whole_report_of_a_read_counts_however_it_is_cut():
    end = plain(2_000)
    end.frame_head(2_000, 1.0)
    content = REPORT.pack(2_100) + REPORT.pack(2_200) + REPORT.pack(4_000)
    for at in range(len(content)):
        end.received(content[at : at + 1], LOG, 1.0)
    assert end.acked == 4_000


@pytest.mark.parametrize("report", [-1, -(1 << 63), 2_001, 1 << 62, 1_999])
def test_3015_an_acknowledgement_that_cannot_be_true_closes_and_frees_nothing(report):
    end = plain(2_000)
    with pytest.raises(LinkError):
        end.received(REPORT.pack(report), LOG, 1.0)
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
        master_end().received(first, LOG, 0.0)


@pytest.mark.parametrize(("start", "said"), [(6_000, "ahead"), (500, "starts at 1000")])
def test_a_java_slave_whose_log_does_not_fit_gets_nothing_and_the_operator_a_line(start, said):
    end = master_end()
    end.received(REPORT.pack(start), LOG, 0.0)
    with pytest.raises(LinkError, match=said):
        end.tick(LOG, 1.0)
    assert end.wanted(LOG) is None


def test_1082_any_byte_is_a_sign_of_life_and_silence_closes():
    end = plain(2_000)
    end.received(REPORT.pack(2_000)[:1], LOG, 15.0)
    end.tick(LOG, 34.9)
    with pytest.raises(LinkError, match="it sent nothing for 20 s"):
        end.tick(LOG, 35.0)


def test_a_slave_of_ours_is_told_where_the_log_begins_and_ends():
    end = master_end()
    end.received(REPORT.pack(2_000) * 2, LOG, 0.0)
    assert end.outgoing(0.0) == CHALLENGE.pack(MAGIC, VERSION, 0, CHANCE)
    assert end.wanted(LOG) is None
    end.received(REPLY.pack(MAGIC, VERSION, 0, 7, b"s" * 32, NO_PROOF), LOG, 0.0)
    assert end.outgoing(0.0) == WELCOME.pack(
        MAGIC, VERSION, Verdict.WELCOME, 1_000, 5_000, 4_000, 1_000, NO_PROOF
    )
    assert (end.broker_id, end.acked, end.wanted(LOG)) == (7, 2_000, Span(2_000, 2_000))


@pytest.mark.parametrize("start", [500, 6_000])
def test_one_of_ours_that_does_not_fit_is_welcomed_to_see_why_and_counts_for_nothing(start):
    end = master_end()
    end.received(REPORT.pack(start) * 2, LOG, 0.0)
    end.received(REPLY.pack(MAGIC, VERSION, 0, 7, b"s" * 32, NO_PROOF), LOG, 0.0)
    assert (end.wanted(LOG), end.acked) == (None, -1)


def test_1893_with_a_secret_nobody_gets_a_byte_of_the_log_without_a_proof():
    terms = LinkTerms(secret=SECRET)
    silent = master_end(terms)
    silent.received(REPORT.pack(2_000), LOG, 0.0)
    with pytest.raises(LinkError, match="sent no proof of the secret"):
        silent.tick(LOG, 1.0)
    wrong = master_end(terms)
    wrong.received(REPORT.pack(2_000) * 2, LOG, 0.0)
    assert wrong.outgoing(0.0) == CHALLENGE.pack(MAGIC, VERSION, NEEDS_PROOF, CHANCE)
    with pytest.raises(LinkError, match="proof of the secret is wrong"):
        wrong.received(REPLY.pack(MAGIC, VERSION, 0, 7, b"s" * 32, b"x" * 32), LOG, 0.0)
    verdict = WELCOME.unpack(wrong.outgoing(0.0))[2:7]
    assert verdict == (Verdict.NOT_PROVEN, 0, 0, 0, 0), "not even where the log ends"
    assert wrong.wanted(LOG) is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (REPLY.pack(MAGIC, 9, 0, 7, b"s" * 32, NO_PROOF), "version 9"),
        (REPLY.pack(MAGIC, VERSION, 0, 0, b"s" * 32, NO_PROOF), "broker id 0"),
        (REPORT.pack(2_000), "did not continue with CMHA"),
    ],
)
def test_a_wrong_answer_to_the_challenge_closes(reply, said):
    end = master_end()
    end.received(REPORT.pack(2_000) * 2, LOG, 0.0)
    with pytest.raises(LinkError, match=said):
        end.received(reply, LOG, 0.0)
