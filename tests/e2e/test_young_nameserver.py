"""A nameserver that was started a moment ago lists only some of the brokers: a change at every master reaches the others, too."""

import pytest

from cometmq import Admin
from cometmq.admin import GroupConfig
from cometmq.model.errors import BrokerNotFound, NetError
from tests.support import processes


def test_a_group_is_deleted_at_brokers_that_only_another_nameserver_lists(tmp_path):
    with (
        processes.nameserver(tmp_path / "old") as old,
        processes.nameserver(tmp_path / "young") as young,
        processes.broker(tmp_path / "a", old.address),
        processes.broker(
            tmp_path / "b",
            f"{young.address};{old.address}",
            settings={"brokerName": "broker-b"},
        ),
    ):
        with Admin(old.address) as admin:
            admin.groups.create(GroupConfig("billing"))
            assert "billing" in admin.groups.configs()
        for _ in range(8):  # Each client begins with a nameserver by chance.
            with Admin(f"{young.address};{old.address}") as admin:
                admin.groups.create(GroupConfig("billing"))
                admin.groups.delete("billing")
            with Admin(old.address) as admin:
                assert "billing" not in admin.groups.configs()
        young.kill()
        with Admin(f"{young.address};{old.address}") as admin:
            admin.groups.create(GroupConfig("billing"))
            with pytest.raises(BrokerNotFound, match="known clusters: DefaultCluster"):
                admin.groups.create(GroupConfig("billing"), cluster="Other")
        old.kill()
        with Admin(f"{young.address};{old.address}") as admin, pytest.raises(NetError):
            admin.groups.configs()
