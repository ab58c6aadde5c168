"""The dashboard: web pages for operators of a RocketMQ cluster, with CometMQ's or Java's brokers.

It needs the extra `dashboard`; its design is docs/design/0056-dashboard.md.
"""

from cometmq.dashboard.passwords import Role, UserFile, new_password
from cometmq.dashboard.server import Dashboard
from cometmq.dashboard.settings import DashboardCluster, DashboardSettings

__all__ = [
    "Dashboard",
    "DashboardCluster",
    "DashboardSettings",
    "Role",
    "UserFile",
    "new_password",
]
