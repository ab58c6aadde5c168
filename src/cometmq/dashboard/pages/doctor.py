"""The page of the doctor: what of the cluster is not well, and what to do, as `cometmq doctor` says."""

from starlette.responses import Response

from cometmq.dashboard.page_request import Page, PageRequest


async def show_symptoms(request: PageRequest) -> Response:
    """All that is wrong, the worst first."""
    return request.page(
        "doctor.html", "Doctor", section="doctor", symptoms=await request.inspector.examine()
    )


PAGES = (Page("/doctor", show_symptoms),)
