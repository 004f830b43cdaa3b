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


# Elements that reach out of the window, but for what lies in a box that scrolls.
CUT = """
const scrolls = (element) => /auto|scroll/.test(getComputedStyle(element).overflowX);
const inBox = (element) => element !== document.body && element.parentElement
  && (scrolls(element.parentElement) || inBox(element.parentElement));
return [...document.body.querySelectorAll('*')].filter((element) => {
  const box = element.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1) && !inBox(element);
}).map((element) => `${element.tagName}#${element.id}.${element.className}`);
"""

# What a finger presses and is lower than 24 pixels (WCAG 2.2, 2.5.8).
LOW = """
const pressed = 'button, select, summary, nav a, input:not([type=radio], [type=range])';
return [...document.querySelectorAll(pressed)]
  .filter((element) => element.checkVisibility() && element.getBoundingClientRect().height < 24)
  .map((element) => `${element.tagName}#${element.id} ${element.textContent.slice(0, 40)}`);
"""

# Texts whose contrast with what they stand on is below 4.5 (WCAG 2.2, 1.4.3), with the contrast.
PALE = """
const parts = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
const light = (colour) => {
  const [red, green, blue] = parts(colour).map((x) => x / 255)
    .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const ground = (element) => {
  const colour = getComputedStyle(element).backgroundColor;
  const seen = (parts(colour)[3] ?? 1) > 0;
  return seen || !element.parentElement ? colour : ground(element.parentElement);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const pale = [];
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
  if (!text || !element.checkVisibility() || /SCRIPT|STYLE|TITLE/i.test(element.tagName)) continue;
  const style = getComputedStyle(element);
  const ink = element.ownerSVGElement ? style.fill : style.color;
  const [dark, bright] = [light(ink), light(ground(element))].sort((a, b) => a - b);
  const contrast = (bright + 0.05) / (dark + 0.05);
  if (contrast < 4.5) pale.push(`${text}: ${contrast.toFixed(2)}`);
}
return pale;
"""


def assert_readable(browser, path, width: int, scheme: str, address: str = "") -> None:
    """Nothing of a page is cut in a window of some width, no text is pale, no button too low."""
    with screen(browser, width, scheme):
        browser.get("about:blank")
        browser.get(f"{path.as_uri()}{address}")
        browser.execute_async_script("setTimeout(arguments[0], 300)")  # it may unpack itself
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(CUT) == []
        assert browser.execute_script(PALE) == []
        if width < 640:
            assert browser.execute_script(LOW) == []
