"""A browser's window."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def screen(browser, width: int, scheme: str) -> Iterator[None]:
    """Give a browser a window of some width, whose reader likes `light` or `dark` pages."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
