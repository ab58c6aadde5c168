"""The dashboard's replication page: each master and slave with the position of its copy of the log."""

from starlette.responses import Response

from cometmq.dashboard.page_request import Page, PageRequest


async def show_replicas(request: PageRequest) -> Response:
    """Return the HTML page with the replication status of all members of all broker groups, which it queries now."""
    return request.page(
        "replicas.html",
        "Replication",
        section="replicas",
        replicas=await request.admin.replicas(),
    )


PAGES = (Page("/replicas", show_replicas),)
