"""The dashboard's replication page: each master and slave with the state of its copy of the log."""

from starlette.responses import Response

from cometmq.dashboard.page_request import Page, PageRequest


async def show_replicas(request: PageRequest) -> Response:
    """Query the registered members of all broker groups; return the HTML page with the states of their copies of the log."""
    return request.page(
        "replicas.html",
        "Replication",
        section="replicas",
        copies=await request.admin.brokers.copies(),
        absent=[str(each) for each in await request.admin.brokers.missing()],
    )


PAGES = (Page("/replicas", show_replicas),)
