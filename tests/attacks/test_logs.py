"""What a bad peer sends forges no line of a log, and does not fill it."""

from tests.attacks.beats import HEART_BEAT, consumer, heartbeat
from tests.attacks.stranger import Stranger
from tests.support.processes import wait_until

REGISTER_BROKER = 103
FORGED = "2026-01-01 00:00:00,000 ERROR cometmq.broker: forged"


def disagree(address: str, clients: tuple[str, str], groups: list[str]) -> None:
    """Two members of each group that want different things, which is worth a warning."""
    with Stranger(address) as one, Stranger(address) as other:
        for peer, client, tag in ((one, clients[0], "A"), (other, clients[1], "B")):
            wants = [consumer(group, ["T"], tag) for group in groups]
            peer.ask(HEART_BEAT, body=heartbeat(client, wants))


def lines(program) -> list[str]:
    return program.log.read_text(errors="replace").splitlines()


def test_a_name_with_a_line_break_forges_no_line_of_the_broker(broker):
    disagree(broker.address, (f"a\n{FORGED}", f"b\r\n{FORGED}"), ["g"])
    wait_until(lambda: any("forged" in line for line in lines(broker)), seconds=10, what="line")
    assert not [line for line in lines(broker) if line.startswith(FORGED)]


def test_a_name_with_a_line_break_forges_no_line_of_the_nameserver(nameserver):
    fields = {
        "brokerName": f"b\n{FORGED}", "brokerAddr": "127.0.0.1:1", "clusterName": "c",
        "haServerAddr": "127.0.0.1:2", "brokerId": "0", "compressed": "false", "bodyCrc32": "0",
    }  # fmt: skip
    with Stranger(nameserver.address) as peer:
        peer.ask(REGISTER_BROKER, fields)
    assert not [line for line in lines(nameserver) if line.startswith(FORGED)]


def test_lines_that_repeat_are_counted(broker):
    disagree(broker.address, ("a", "b"), [f"g{number}" for number in range(100)])
    told = wait_until(
        lambda: [line for line in lines(broker) if "more like this" in line],
        seconds=10,
        what="how many lines were left out",
    )
    assert " 90 more like this" in told[0]
    assert (
        len([line for line in lines(broker) if "members have different subscriptions" in line])
        < 20
    )


def test_two_ids_of_a_megabyte_are_cut(broker):
    disagree(broker.address, ("a" * 1_000_000, "b" * 1_000_000), ["g"])
    assert broker.log.stat().st_size < 100_000
