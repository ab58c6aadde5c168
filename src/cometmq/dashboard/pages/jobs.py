"""Spark's jobs: which ran, how far they are, and why one failed.

Next: cometmq.dashboard.jobs
"""

import asyncio

from starlette.responses import Response

from cometmq.dashboard.asked import Asked, Page
from cometmq.dashboard.inputs import page_of, text_of
from cometmq.dashboard.jobs import job_runs
from cometmq.dashboard.paging import part_of


async def show_jobs(asked: Asked) -> Response:
    """The list, what was written last first."""
    return await _jobs(asked, "jobs.html", "Jobs")


async def jobs_part(asked: Asked) -> Response:
    """The part that renews itself."""
    return await _jobs(asked, "part_jobs.html", "")


async def _jobs(asked: Asked, template: str, title: str) -> Response:
    find = text_of(asked.fields, "find")
    folders = asked.works.settings.job_folders
    # Files, maybe on a network's disk.
    runs = await asyncio.to_thread(job_runs, folders)
    wanted = [each for each in runs if find.lower() in f"{each.job} {each.id}".lower()]
    return asked.page(
        template,
        title,
        section="jobs",
        part=part_of(wanted, page_of(asked.fields)),
        find=find,
        folders=[str(each) for each in folders],
    )


PAGES = (Page("/jobs", show_jobs), Page("/part/jobs", jobs_part, is_part=True))
