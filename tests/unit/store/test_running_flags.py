"""The reasons why no message is taken."""

import pytest

from cometmq.store.running_flags import RunningFlag, RunningFlags


def test_bits_are_those_of_rocketmq():
    assert [flag.value for flag in RunningFlag] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(
    "flag", [flag for flag in RunningFlag if flag != RunningFlag.NOT_READABLE]
)
def test_every_flag_but_the_first_refuses(flag):
    flags = RunningFlags()
    flags.raise_flag(flag, "why")
    assert (flags.refusal, flags.bits) == ("why", flag)
    assert flags.clear(flag)
    assert not flags.clear(flag)
    assert (flags.refusal, flags.bits) == (None, 0)


def test_not_readable_alone_does_not_stop_writing():
    flags = RunningFlags()
    flags.raise_flag(RunningFlag.NOT_READABLE, "why")
    assert flags.refusal is None
    assert flags.bits == 1


def test_all_reasons_are_named_and_the_newest_words_of_each():
    flags = RunningFlags()
    flags.raise_flag(RunningFlag.DISK_FULL, "91 %")
    flags.raise_flag(RunningFlag.NOT_WRITABLE, "a flush failed")
    flags.raise_flag(RunningFlag.DISK_FULL, "95 %")
    assert flags.refusal == "95 %; a flush failed"
    assert flags.bits == 18
