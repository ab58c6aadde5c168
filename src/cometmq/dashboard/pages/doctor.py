"""The page of the doctor: what of the cluster is not well, and what to do, as `cometmq doctor` says.

Next: cometmq.client.admin.inspector
"""

from starlette.responses import Response

from cometmq.dashboard.asked import Asked, Page


async def show_symptoms(asked: Asked) -> Response:
    """All that is wrong, the worst first."""
    return asked.page(
        "doctor.html", "Doctor", section="doctor", symptoms=await asked.inspector.examine()
    )


PAGES = (Page("/doctor", show_symptoms),)
