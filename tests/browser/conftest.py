"""Debian's Chromium, for all tests in a browser."""

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")  # a running one holds the event loop of its process
def browser():
    """Debian's Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]  # as root, and where /dev/shm is small
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield chromium
        chromium.close()
