"""The Chromium of the machine, driven by playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium.

    Raises:
        RuntimeError: there is none; the suite fails, since nothing else shows what it shows.
    """
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise RuntimeError("no chromium here: install it (Debian: chromium)")
    with sync_playwright() as playwright:
        # Chromium's own sandbox refuses to run as root, which CI is.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()
