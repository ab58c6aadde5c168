"""Replication: each master and slave, and how far its copy of the log is."""

from starlette.responses import Response

from cometmq.dashboard.page_request import Page, PageRequest


async def show_replicas(request: PageRequest) -> Response:
    """All members of all broker groups."""
    return request.page(
        "replicas.html",
        "Replication",
        section="replicas",
        replicas=await request.admin.replicas(),
    )


PAGES = (Page("/replicas", show_replicas),)
