"""The dashboard's doctor page: problems of the cluster and what to do about them, like `cometmq doctor`."""

from starlette.responses import Response

from cometmq.dashboard.page_request import Page, PageRequest


async def show_symptoms(request: PageRequest) -> Response:
    """Check the cluster, and return the HTML page with the problems that were found, most severe first."""
    return request.page(
        "doctor.html", "Doctor", section="doctor", symptoms=await request.inspector.examine()
    )


PAGES = (Page("/doctor", show_symptoms),)
