"""Opens pages of the audit report in headless Chromium, at four widths, in light and dark.

For each it takes a picture and runs axe-core, and it fails for any finding of axe-core, for any request, for any
message of the browser (such as a refused style), for a page that is wider than its window, and on a phone for a
table with columns beyond its edge. It prints each page as a PDF too. Called by scripts/check-report.
"""

import pathlib
import sys

import axe_playwright_python
from playwright.sync_api import sync_playwright

WIDTHS = (360, 400, 800, 1400)
# The widest window in which no table may have columns beyond its edge.
PHONE = 480
CUT_TABLES = """Array.from(document.querySelectorAll('.scroll')).filter(d => d.scrollWidth > d.clientWidth)
    .map(d => `${d.getAttribute('aria-label')}: ${d.scrollWidth} of ${d.clientWidth}`)"""
SCHEMES = ("light", "dark")
AXE = pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js"
RUN_AXE = "async () => (await axe.run(document, {resultTypes: ['violations', 'incomplete']}))"


def findings(result):
    """One line per element that axe-core objects to."""
    for violation in result["violations"]:
        for node in violation["nodes"]:
            yield f"axe: {violation['id']} ({violation['impact']}): {node['html'][:160]}: " + (
                node["failureSummary"].replace("\n", " ")
            )


def check(browser, page_file, width, scheme, folder):
    """Takes the pictures of one page and returns what is wrong with it."""
    # The page's policy forbids scripts; axe-core is one. Chromium lets the tester bypass the policy, so the page is
    # opened twice: once as a reader does, once for axe-core.
    wrong = []
    for bypass in (False, True):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=bypass
        )
        page = context.new_page()
        messages, requests = [], []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(page_file.as_uri())
        if bypass:
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            page.add_script_tag(content=AXE.read_text())
            result = page.evaluate(RUN_AXE)
            wrong += findings(result)
        else:
            wrong += [f"message of the browser: {message}" for message in messages]
            wrong += [f"request: {url}" for url in requests if url != page_file.as_uri()]
        name = f"{page_file.stem}-{width}-{scheme}" + ("-open" if bypass else "")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            wrong.append(f"the page is {wide} pixels wide")
        if bypass and width <= PHONE:
            wrong += [f"a table is cut: {table}" for table in page.evaluate(CUT_TABLES)]
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        if not bypass and scheme == "light" and width == WIDTHS[-1]:
            (folder / f"{page_file.stem}.pdf").write_bytes(page.pdf(format="A4"))
        context.close()
    return [f"{page_file.name}, {width} pixels, {scheme}: {line}" for line in wrong]


def main(folder, chromium, pages):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wrong, count = [], 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for page_file in map(lambda name: pathlib.Path(name).resolve(), pages):
            for width in WIDTHS:
                for scheme in SCHEMES:
                    wrong += check(browser, page_file, width, scheme, folder)
                    count += 1
        browser.close()
    for line in wrong:
        print(line)
    print(f"{count} views of {len(pages)} pages, {len(wrong)} findings; pictures in {folder}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
