"""The dashboard: pages in a browser for who runs a cluster, ours or Java's.

It needs the extra `dashboard`; its design is docs/design/0056-dashboard.md.
"""

from cometmq.dashboard.passwords import Role, UserFile, new_password
from cometmq.dashboard.server import Dashboard
from cometmq.dashboard.settings import DashboardSettings

__all__ = ["Dashboard", "DashboardSettings", "Role", "UserFile", "new_password"]
