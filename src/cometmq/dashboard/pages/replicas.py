"""Replication: each master and slave, and how far its copy of the log is.

Next: cometmq.client.admin
"""

from starlette.responses import Response

from cometmq.dashboard.asked import Asked, Page


async def show_replicas(asked: Asked) -> Response:
    """All members of all broker groups."""
    return asked.page(
        "replicas.html",
        "Replication",
        section="replicas",
        replicas=await asked.admin.replicas(),
    )


PAGES = (Page("/replicas", show_replicas),)
