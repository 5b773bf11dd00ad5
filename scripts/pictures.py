"""Pictures of the roads in docs/roads: part of each page that a demo writes, at one width, in few colours."""

from __future__ import annotations

import io
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "roads" / "pictures"
PAGES = {
    "case.png": ("demo-forget/case/case.html", 0, 980),
    "audit.png": ("demo-audit/report-epoch-04/report.html", 0, 760),
    "report.png": ("demo/report/report.html", 590, 795),
}
"""Picture -> the page, and from where and how many pixels of it."""
WIDTH = 1100
COLOURS = 64


def draw(folder: Path) -> int:
    """Draw the pictures of the pages that are in a folder; the exit code.

    Args:
        folder: where `medunlearn demo`, `demo forget` and `demo audit` were run with their usual ``--out``.
    """
    from PIL import Image
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    missing = [path for path, *_ in PAGES.values() if not (folder / path).exists()]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, (path, top, height) in PAGES.items():
            if path in missing:
                continue
            page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="light")
            page.goto((folder / path).resolve().as_uri())
            clip = {"x": 0, "y": top, "width": WIDTH, "height": height}
            shot = page.screenshot(full_page=True, clip=clip)
            image = Image.open(io.BytesIO(shot)).convert("RGB")
            image.quantize(COLOURS).save(FOLDER / name, optimize=True)
        browser.close()
    print("\n".join(f"{path} is not there: its picture stays" for path in missing))
    return 1 if missing else 0
