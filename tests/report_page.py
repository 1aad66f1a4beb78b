#!/usr/bin/env python3
"""The pages of --html in a real browser: Debian's chromium without a window, driven by Playwright.

    tests/report_page.py --pdl-sim build/sim/pdl-sim --cache build/sim                       checks
    tests/report_page.py --pdl-sim build/sim/pdl-sim --cache build/sim --screenshots docs    writes docs/page_*.png
    tests/report_page.py ... --keep DIR                                                      pages and pictures to look at

Checked: nothing is asked of any network and nothing is on the console; all spans are there; zoom, pan, hover, search,
keyboard; sorting; light and dark; paper; how large pages are and how fast they open; the sum of the library of figures.
Playwright comes from pip, once, into the cache folder. Exit code: 0 fine, 1 not, 77 (skipped) without chromium, or
without a pip that can fetch Playwright.
"""

import argparse
import contextlib
import hashlib
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEB = ROOT / "sim/report/web"
PLAYWRIGHT = "playwright==1.65.2"
SKIPPED = 77
MEGABYTE = 1_000_000
# A step that is the same everywhere: costs that are given.
RUN = "--gpus 4 --depth 16 --schedule zb-v --microbatches 64 --batch 2048 --tf 1 --tb 1 --tw 1 --tcomm 0.1".split()
MILLION = "--gpus 16 --depth 16 --schedule 1f1b --microbatches 17000 --batch 17000 --tf 1 --tb 2 --tcomm 0.05".split()


def skip(reason):
    print(f"test skipped: {reason}")
    sys.exit(SKIPPED)


def check_sum():
    """The library is the file that its note says."""
    note = (WEB / "echarts.txt").read_text(encoding="utf-8")
    said = re.search(r"^sha256 +([0-9a-f]{64})$", note, re.MULTILINE)[1]
    found = hashlib.sha256((WEB / "echarts.min.js").read_bytes()).hexdigest()
    assert found == said, f"sim/report/web/echarts.min.js: sum {found}, echarts.txt says {said}"
    assert re.search(r"^version +\d+\.\d+\.\d+$", note, re.MULTILINE), "echarts.txt: no version"


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return skip("no chromium (Debian's package chromium)")


def load_playwright(cache):
    tools = cache / "report_page"
    if not (tools / "complete").is_file():
        shutil.rmtree(tools, ignore_errors=True)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
                               "--root-user-action=ignore", "--target", tools, PLAYWRIGHT], capture_output=True, text=True)
        if done.returncode:
            skip(f"pip cannot fetch {PLAYWRIGHT}: {done.stderr.strip()[-300:]}")
        (tools / "complete").touch()
    sys.path.insert(0, str(tools))
    return importlib.import_module("playwright.sync_api").sync_playwright


class Pages:
    """Makes pages by pdl-sim and opens them."""

    def __init__(self, pdl_sim, folder, browser):
        self.pdl_sim, self.folder, self.browser = pdl_sim, folder, browser
        self.said = []

    def make(self, name, *words):
        path = self.folder / f"{name}.html"
        done = subprocess.run([self.pdl_sim, *words, "--html", path], capture_output=True, text=True)
        assert done.returncode == 0, f"pdl-sim {' '.join(map(str, words))}: {done.stderr}"
        return path

    @contextlib.contextmanager
    def open(self, path, *, size=(1280, 900), scheme="light"):
        """The page, of which nothing may be said on the console and nothing asked of a network."""
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        page = context.new_page()
        problems = []
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda request: problems.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None)
        page.goto(path.as_uri())
        page.wait_for_load_state("load")
        yield page
        context.close()
        assert not problems, f"{path.name}: {problems[:5]}"


def wait_until(page, condition):
    """Not Playwright's own, which evaluates a string in the page: the page's policy forbids it."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {condition}")


def show_timeline(page):
    """At the top of the window."""
    timeline(page, "t.figure.scrollIntoView({behavior: 'instant'})")


def timeline(page, expression):
    """Of the page's first timeline, as page.js has it."""
    wait_until(page, "document.querySelector('figure.timeline')?.drawn !== undefined")
    return page.evaluate(f"(() => {{ const t = document.querySelector('figure.timeline').drawn; return {expression}; }})()")


def place_of(page, row, span):
    """Where the middle of a span is in the window: x, y."""
    return timeline(page, f"(() => {{ const r = t.drawn[{row}], box = t.plot.getBoundingClientRect(), "
                          f"at = t.chart.convertToPixel('grid', [(r.start[{span}] + r.end[{span}]) / 2, {row}]); "
                          "return [box.left + at[0], box.top + at[1]]; })()")


def test_timeline(pages):
    path = pages.make("run", *RUN)
    assert path.stat().st_size < 2 * MEGABYTE, f"{path.name}: {path.stat().st_size} bytes"
    with pages.open(path) as page:
        said = int(page.get_attribute("figure.timeline", "data-spans"))
        assert timeline(page, "t.rows.reduce((sum, row) => sum + row.n, 0)") == said
        # 4 GPUs x 2 chunks x 64 micro-batches x (F, I, W), and what goes between stages: 7 boundaries, of which that
        # between the chunks of the last GPU needs no transfer, two directions.
        assert said == 4 * 2 * 64 * 3 + 6 * 64 * 2, said
        # GPUs between others have a link to each side, one stream for both.
        assert timeline(page, "t.rows.map(row => row.gpu + row.stream)") == [f"{gpu}{stream}" for gpu in range(4) for stream in ("compute", "link")]

        show_timeline(page)
        page.mouse.move(*place_of(page, 0, 0))
        tip = page.locator(".tip")
        assert "F0: forward of micro-batch 0" in tip.inner_text(), tip.inner_text()
        for words in ("GPU", "compute", "0.000 ms", "1.000 ms"):
            assert words in tip.inner_text(), tip.inner_text()

        whole = timeline(page, "t.view")
        page.get_by_role("button", name="zoom in").click()
        near = timeline(page, "t.view")
        assert near[1] - near[0] < .7 * (whole[1] - whole[0]), (whole, near)
        page.get_by_role("button", name="later").click()
        assert timeline(page, "t.view")[0] > near[0]
        page.get_by_role("button", name="show the whole step").click()
        assert timeline(page, "t.view") == whole

        # The wheel scrolls the page until the chart is clicked.
        page.set_viewport_size({"width": 1280, "height": 700})
        show_timeline(page)
        before = page.evaluate("scrollY")
        page.mouse.move(*place_of(page, 0, 40))
        page.mouse.wheel(0, -100)
        page.wait_for_timeout(400)
        assert page.evaluate("scrollY") < before
        assert timeline(page, "t.view") == whole
        show_timeline(page)
        x, y = place_of(page, 0, 40)
        page.mouse.click(x, y)
        page.mouse.wheel(0, -200)
        page.wait_for_timeout(100)
        zoomed = timeline(page, "t.view")
        assert zoomed[1] - zoomed[0] < .8 * (whole[1] - whole[0]), zoomed
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 120, y, steps=4)
        page.mouse.up()
        page.wait_for_timeout(150)
        assert timeline(page, "t.view")[0] > zoomed[0], "dragged to later"


def test_keyboard(pages):
    with pages.open(pages.folder / "run.html") as page:
        timeline(page, "0")
        page.locator("figure.timeline .plot").focus()
        for key in ("+", "+", "ArrowRight"):
            page.keyboard.press(key)
        view = timeline(page, "t.view")
        assert view[0] > 0 and view[1] - view[0] < .5 * timeline(page, "t.end"), view
        page.keyboard.press("0")
        assert timeline(page, "t.view") == [0, timeline(page, "t.end")]
        for key in ("n", "n", "ArrowDown"):
            page.keyboard.press(key)
        selected = page.locator("figure.timeline .selected")
        assert "micro-batch" in selected.inner_text(), selected.inner_text()
        page.keyboard.press("Escape")
        assert selected.inner_text() == ""


def test_search(pages):
    with pages.open(pages.folder / "run.html") as page:
        timeline(page, "0")
        search = page.get_by_label("Find tasks by name")
        for text, count in (("0F3", "2 tasks found"), ("F3", "14 tasks found"), ("weight gradient", "512 tasks found"), ("no such", "0 tasks found")):
            search.fill(text)
            page.wait_for_timeout(250)
            assert page.locator(".found").inner_text() == count, (text, page.locator(".found").inner_text())
        search.fill("0F3")
        search.press("Enter")
        assert "forward of micro-batch 3, stage 0" in page.locator(".selected").inner_text()
        page.get_by_role("button", name="weight gradient").click()
        assert page.get_by_role("button", name="weight gradient").get_attribute("aria-pressed") == "true"


def test_million_spans(pages):
    path = pages.make("million", *MILLION)
    assert path.stat().st_size < 6 * MEGABYTE, f"{path.name}: {path.stat().st_size} bytes"
    # The best of three: the machine may do something else at the same time.
    milliseconds = []
    for _ in range(3):
        with pages.open(path) as page:
            timeline(page, "0")
            milliseconds.append(timeline(page, "t.firstDrawn"))
    with pages.open(path) as page:
        timeline(page, "0")
        said, merged = (int(page.get_attribute("figure.timeline", f"data-{name}")) for name in ("spans", "merged"))
        assert said >= 1_000_000 and merged > 0, (said, merged)
        pages.said.append(f"{said} spans: {path.stat().st_size / MEGABYTE:.1f} MB, drawn {min(milliseconds) / 1000:.2f} s after the page was asked for")
        assert min(milliseconds) < 5000, f"{min(milliseconds):.0f} ms (about one second on a machine that does nothing else)"
        assert "are merged" in page.locator("figure.timeline figcaption").inner_text()
        show_timeline(page)
        page.mouse.move(*timeline(page, "(() => { const box = t.plot.getBoundingClientRect(), at = t.chart.convertToPixel('grid', [t.end / 2, 0]); return [box.left + at[0], box.top + at[1]]; })()"))
        page.wait_for_timeout(50)
        assert "% of it" in page.locator(".tip").inner_text()


def test_sorting(pages):
    path = pages.make("profiles", "profiles")
    with pages.open(path) as page:
        table = page.locator("main table").first
        for column, key in ((0, str), (2, int)):
            head = table.locator("thead th").nth(column)
            cells = table.locator(f"tbody tr > *:nth-child({column + 1})")
            original = cells.all_inner_texts()
            assert len(original) > 1
            head.get_by_role("button").focus()
            for said, expected in (("ascending", sorted(original, key=key)), ("descending", sorted(original, key=key, reverse=True)),
                                   ("none", original)):
                page.keyboard.press("Enter")
                assert head.get_attribute("aria-sort") == said
                assert cells.all_inner_texts() == expected, (said, cells.all_inner_texts())


def test_themes_and_paper(pages):
    path = pages.folder / "run.html"

    def ground(page):
        return sum(map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]))

    with pages.open(path, scheme="dark") as page:
        assert ground(page) < 150
        page.get_by_role("button", name="switch between light and dark").click()
        assert ground(page) > 600
    with pages.open(path) as page:
        assert ground(page) > 600
        timeline(page, "0")
        text = page.pdf(path=pages.folder / "run.pdf", format="A4")
        assert text.startswith(b"%PDF") and len(text) > 20_000, len(text)
    with pages.open(path, size=(390, 844)) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, "a phone scrolls down alone"


def test_every_command(pages):
    """Each command's page opens, its figures draw, and whatever can be reached has a name."""
    for name, words in commands(pages).items():
        path = pages.make(name, *words)
        with pages.open(path) as page:
            for index in range(page.locator("figure").count()):  # drawn when they come into the window
                page.evaluate(f"document.querySelectorAll('figure')[{index}].scrollIntoView({{behavior: 'instant'}})")
                wait_until(page, f"document.querySelectorAll('figure')[{index}].drawn !== undefined")
            assert page.locator("h1").count() == 1
            assert page.evaluate("[...document.querySelectorAll('table')].every(table => table.caption)")
            assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size === document.querySelectorAll('[id]').length")
            assert page.evaluate("[...document.querySelectorAll('a[href^=\"#\"]')].every(a => document.getElementById(a.hash.slice(1)))")
            assert page.evaluate("[...document.querySelectorAll('button')].every(b => b.hidden || b.textContent.trim() || b.ariaLabel)")
        pages.said.append(f"{name}: {path.stat().st_size / MEGABYTE:.2f} MB")


def measured_run():
    """A measured run of this repository, and the words that predict it."""
    path = ROOT / "data/h100x4/runs/pp-1f1b_gpus4_mlp16x4096_batch4096_mb8_fp32_sgd_copy_thread.json"
    return path, "--gpus 4 --depth 16 --dim 4096 --batch 4096 --microbatches 8 --schedule 1f1b --workers thread --profile h100x4".split()


def commands(pages):
    measured, words = measured_run()
    predicted = pages.folder / "predicted.json"
    subprocess.run([pages.pdl_sim, *words, "--json", predicted], check=True, capture_output=True)
    return {"profiles": ["profiles"],
            "explained": [*"--gpus 4 --depth 16 --schedule zb-v --profile h100x4 --explain".split()],
            "compare": ["compare", predicted, measured],
            "sweep": "sweep --gpus 1,2,4 --strategy ddp --profile h200x4".split(),
            "validate": ["validate", *sorted(measured.parent.glob("pp-1f1b*.json"))],
            "book": ["scenario", "--all"]}


def take_screenshots(pages, folder):
    folder.mkdir(exist_ok=True)
    made = commands(pages)
    for name, command, size in (("page_run", "explained", (1180, 1010)), ("page_compare", "compare", (1180, 790))):
        path = pages.make(command, *made[command])
        with pages.open(path, size=size) as page:
            timeline(page, "0")
            if command == "compare":
                page.evaluate("document.querySelector('figure.timeline').scrollIntoView({behavior: 'instant'})")
            page.wait_for_timeout(400)
            page.screenshot(path=folder / f"{name}.png")
        written = (folder / f"{name}.png").stat().st_size
        assert written < 200_000, f"{name}.png: {written} bytes"
        print(f"{folder / name}.png: {written / 1000:.0f} kB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdl-sim", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--cache", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    check_sum()
    browser_path = find_browser()
    sync_playwright = load_playwright(arguments.cache)
    failed = []
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        pages = Pages(arguments.pdl_sim, folder.resolve(), browser)
        if arguments.screenshots:
            take_screenshots(pages, arguments.screenshots)
            return 0
        for test in (test_timeline, test_keyboard, test_search, test_million_spans, test_sorting, test_themes_and_paper, test_every_command):
            try:
                test(pages)
            except Exception as error:  # an assertion, or Playwright's: an element that never came
                line = traceback.extract_tb(error.__traceback__)[-1]
                failed.append(f"{test.__name__}, line {line.lineno}: {str(error)[:500] or line.line}")
        browser.close()
    print("\n".join(pages.said + failed))
    print(f"{len(failed)} of 7 tests failed" if failed else "7 tests passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
