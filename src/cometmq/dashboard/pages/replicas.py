"""The dashboard's replication page: each master and slave with its copy's position in the log, or an error."""

from starlette.responses import Response

from cometmq.dashboard.page_request import Page, PageRequest


async def show_replicas(request: PageRequest) -> Response:
    """Query the registered members of all broker groups; return the HTML page with their replication status or errors."""
    return request.page(
        "replicas.html",
        "Replication",
        section="replicas",
        replicas=await request.admin.brokers.replicas(),
        absent=[str(each) for each in await request.admin.brokers.missing()],
    )


PAGES = (Page("/replicas", show_replicas),)
