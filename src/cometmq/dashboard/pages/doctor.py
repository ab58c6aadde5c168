"""The dashboard's doctor page: problems of the cluster and what to do about them, like `cometmq doctor`."""

from starlette.responses import Response

from cometmq.admin import IgnoreList, grouped_symptoms
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.model.errors import SettingsError


async def show_symptoms(request: PageRequest) -> Response:
    """Check the cluster, and return the HTML page with the problems found and not ignored, most severe first."""
    try:
        ignored = request.context.settings.ignored()
    except SettingsError as error:  # The file was changed after the start.
        ignored, request.problem = IgnoreList(), f"Nothing is ignored: {error}."
    seen = await request.admin.health.check()
    found = [each for each in seen if each not in ignored]
    return request.page(
        "doctor.html",
        "Doctor",
        section="doctor",
        parts=grouped_symptoms(found),
        ignored=len(seen) - len(found),
    )


PAGES = (Page("/doctor", show_symptoms),)
