"""The report as a reader meets it, in headless Chromium: narrow and wide, light and dark, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from specc.report.page import page_from_subject
from specc.report.render import html_from_page
from tests.browser import Browser, browser_program, running_browser
from tests.report_subjects import SUBJECTS, on_four_gpus
from tests.unit.report.test_page import HOSTILE

pytestmark = pytest.mark.browser

SMALLEST_TEXT = 12.0
TEXT_CONTRAST, MARK_CONTRAST = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11
# Every text that is shown: its size on the screen, its box, its drawing if it is in one, and its two colours.
TEXTS = """
(() => {
  const shown = [];
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.startsWith('rgba(0, 0, 0, 0')) return colour;
    }
  };
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || ['TITLE', 'DESC'].includes(node.tagName.toUpperCase())) continue;
    const style = getComputedStyle(node), svg = node.closest('svg'), box = node.getBoundingClientRect();
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const inside = node.classList.contains('inside');
    const bar = inside ? [...svg.querySelectorAll('rect')].find((rect) => {
      const r = rect.getBoundingClientRect();
      return r.left <= box.left && r.right >= box.right && r.top <= box.top + 3 && r.bottom >= box.bottom - 3;
    }) : null;
    shown.push({
      text: node.textContent.trim().slice(0, 40), size: parseFloat(style.fontSize) * scale,
      box: [box.left, box.top, box.right, box.bottom], chart: svg ? svg.parentElement.id : null,
      edge: svg ? [svg.getBoundingClientRect().left, svg.getBoundingClientRect().right] : null,
      scrolls: node.closest('.scroll') !== null, inside: !inside || bar !== undefined,
      colour: svg ? style.fill : style.color, ground: bar ? getComputedStyle(bar).fill : behind(node),
    });
  }
  return shown;
})()
"""
MARKS = """
[...document.querySelectorAll('.line, .limit, .roof, .part, .total, .one, .mark')].map((node) => {
  const style = getComputedStyle(node);
  return node.tagName === 'path' && style.fill === 'none' || node.matches('.hollow, .best') ? style.stroke : style.fill;
})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    program = browser_program()
    assert program is not None
    with running_browser(program, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, subject in SUBJECTS.items():
        (folder / f"{name}.html").write_text(html_from_page(page_from_subject(subject())), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in SUBJECTS}


def luminance(colour: str) -> float:
    """Return the relative luminance of `rgb(r, g, b)`, as WCAG defines it."""
    parts = [int(float(part)) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Tell whether two texts cover each other by more than a pixel and the empty parts of their lines."""
    left, top = max(a["box"][0], b["box"][0]), max(a["box"][1], b["box"][1])
    right, bottom = min(a["box"][2], b["box"][2]), min(a["box"][3], b["box"][3])
    return right - left > 1 and bottom - top > 3


def check_quiet(browser: Browser, file: Path) -> None:
    """Assert that the page asked for itself alone, and that the console is empty."""
    assert [event["request"]["url"] for event in browser.of("Network.requestWillBeSent")] == [file.as_uri()]
    for method in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
        assert browser.of(method) == []


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_text_is_readable(name: str, width: int, browser: Browser, pages) -> None:
    browser.open(pages[name], width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    texts = browser.value(TEXTS)
    assert len(texts) > 100
    assert [t["text"] for t in texts if t["size"] < SMALLEST_TEXT] == []
    assert [t["text"] for t in texts if not t["scrolls"] and not (t["box"][0] >= 0 and t["box"][2] <= width)] == []
    drawn = [t for t in texts if t["chart"] is not None]
    assert {t["chart"] for t in drawn} == {"chart-memory", "chart-batch", "chart-gamma", "chart-roofline"}
    assert [t["text"] for t in drawn if not (t["edge"][0] - 1 <= t["box"][0] and t["box"][2] <= t["edge"][1] + 1)] == []
    assert [t["text"] for t in drawn if not t["inside"]] == []
    met = [(a["text"], b["text"]) for a, b in combinations(drawn, 2) if a["chart"] == b["chart"] and overlap(a, b)]
    assert met == []
    check_quiet(browser, pages[name])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_colours_have_contrast(name: str, dark: bool, browser: Browser, pages) -> None:
    browser.open(pages[name], 400, dark=dark)
    ground = browser.value("getComputedStyle(document.documentElement).backgroundColor")
    assert (luminance(ground) < 0.05) == dark
    faint = {t["text"]: contrast(t["colour"], t["ground"]) for t in browser.value(TEXTS)}
    assert {text: ratio for text, ratio in faint.items() if ratio < TEXT_CONTRAST} == {}
    marks = set(browser.value(MARKS))
    assert {mark for mark in marks if contrast(mark, ground) < MARK_CONTRAST} == set()
    check_quiet(browser, pages[name])


def test_tables_scroll_in_their_own_box(browser: Browser, pages) -> None:
    browser.open(pages["gpus"], 400)
    boxes = "[...document.querySelectorAll('.scroll')].map((box) => [box.scrollWidth, box.clientWidth, box.tabIndex])"
    assert all(client <= 400 and index == 0 for _, client, index in browser.value(boxes))
    assert any(inner > client for inner, client, _ in browser.value(boxes))
    assert browser.value("document.querySelectorAll('table').length === document.querySelectorAll('.scroll').length")


def test_what_a_recipe_states_cannot_run(browser: Browser, tmp_path: Path) -> None:
    subject = replace(on_four_gpus(), name=HOSTILE, facts=(("target", HOSTILE),), notes=(HOSTILE,))
    file = tmp_path / "hostile.html"
    file.write_text(html_from_page(page_from_subject(subject)), encoding="utf-8")
    browser.open(file, 400)
    assert browser.value("document.title") == f"{HOSTILE}: plan"
    assert browser.value("document.querySelector('h1').textContent") == HOSTILE
    assert browser.value("document.scripts.length + document.images.length") == 0
    check_quiet(browser, file)
