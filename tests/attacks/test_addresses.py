"""A broker starts at whatever address it is told, and says where others will not find it."""

from cometmq.model.codes import RequestCode
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.other_machine import OtherMachine
from tests.support.processes import wait_until

# Kept for documents (RFC 5737): no interface has it, as behind NAT or in a container.
ELSEWHERE = "203.0.113.7"


def test_a_broker_on_loopback_says_that_a_remote_nameserver_misleads(tmp_path):
    with (
        OtherMachine() as other,
        processes.nameserver(tmp_path / "names", bindAddress="0.0.0.0") as names,
    ):
        near, far = names.address, f"{other.here}:{names.port}"
        settings = {"bindAddress": None}
        with processes.broker(tmp_path / "near", near, settings=settings) as program:
            assert "which other machines cannot reach" not in program.log.read_text()
        with processes.broker(tmp_path / "far", f"{near};{far}", settings=settings) as program:
            (said,) = (
                line
                for line in program.log.read_text().splitlines()
                if "which other machines cannot reach" in line
            )
    assert "WARNING" in said
    assert far in said
    assert near not in said
    assert "brokerIP1" in said
    assert "write bindAddress=0.0.0.0 to listen on all addresses" in program.log.read_text()


def test_a_brokerip1_on_loopback_says_that_nobody_else_is_served_and_what_opens_it(tmp_path):
    settings = {"brokerIP1": "127.0.0.1"}
    with processes.broker(tmp_path / "shut", "", settings=settings) as program:
        said = program.log.read_text()
    assert "listening on loopback only, 127.0.0.1" in said
    assert "write bindAddress=0.0.0.0 to listen on all addresses" in said
    settings = {**settings, "bindAddress": "0.0.0.0"}
    with processes.broker(tmp_path / "open", "", settings=settings) as program:
        assert "loopback only" not in program.log.read_text()


def test_a_brokerip1_that_no_interface_has_starts_and_says_where_it_listens(
    tmp_path, nameserver
):
    settings = {"brokerIP1": ELSEWHERE, "brokerName": "nat"}
    with processes.broker(tmp_path / "alone", "", settings=settings) as program:
        assert f"{ELSEWHERE} is not an address of this machine" in program.log.read_text()
        assert "LISTENING ON 0.0.0.0" in program.log.read_text()
        with Stranger(program.address) as peer:
            assert peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == 0
    settings = {**settings, "bindAddress": "127.0.0.1", "namesrvAddr": nameserver.address}
    with processes.broker(tmp_path / "bound", "", settings=settings) as program:
        assert "not an address of this machine" not in program.log.read_text()
        told = f"{ELSEWHERE}:{program.port}"
        wait_until(lambda: told in clusters(nameserver), seconds=10, what="its registration")


def clusters(nameserver) -> str:
    with Stranger(nameserver.address) as peer:
        return peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body.decode()


def test_a_key_value_is_kept_with_a_fresh_home(tmp_path):
    path = tmp_path / "fresh" / "namesrv" / "kvConfig.json"
    fields = {"namespace": "n", "key": "k", "value": "v"}
    with (
        processes.nameserver(tmp_path, kvConfigPath=path) as program,
        Stranger(program.address) as peer,
    ):
        put = peer.ask(RequestCode.PUT_KV_CONFIG, fields)
        assert (put.code, put.remark) == (0, "")
    assert "v" in path.read_text()
