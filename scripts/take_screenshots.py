"""Take the screenshots of the web pages for the docs: an incident of a shop on its own server, rendered by Chromium.

    python scripts/take_screenshots.py            all screenshots, into docs/images/
    python scripts/take_screenshots.py now        screenshots whose name contains this word

Needs Debian's chromium, and some minutes for the incident (bench/incident).
"""

from __future__ import annotations

import shutil
import struct
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.incident.play import Incident, Size  # noqa: E402
from bench.servers import Server  # noqa: E402
from offsider.ext.batches import BatchSet  # noqa: E402
from offsider.inspector import ErrorGroups, JobFilter, RetrySet  # noqa: E402
from tests.process.web_process import WebProcess  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDE, NARROW = (1300, 820), (390, 844)
BROKEN = "shop.create_invoice"
#: A release is named as the cause of failures after two minutes.
SECONDS = 270.0
#: name of the file, path, size, dark
PICTURES = (
    ("web-now", "/", WIDE, False),
    ("web-now-dark", "/", WIDE, True),
    ("web-now-phone", "/", NARROW, False),
    ("web-class", f"/class/{BROKEN}", WIDE, False),
    ("web-error", "error", WIDE, False),
    ("web-job", "job", WIDE, True),
    ("web-jobs", f"/jobs?where=retry,dead&class={BROKEN}", WIDE, False),
    ("web-fleet", "/fleet", WIDE, False),
    ("web-log", "/log", WIDE, False),
    ("web-batch", "batch", WIDE, False),
)
PNG = b"\x89PNG\r\n\x1a\n"


def subjects(incident: Incident) -> dict[str, str]:
    """Return the paths of an error, of a job that fails, and of a batch."""
    server = incident.server
    group = next(found for found in ErrorGroups(server).page(order="jobs") if found.name == BROKEN)
    failed = RetrySet(server).scan(JobFilter(name=BROKEN), budget_ms=1_000).entries
    job = max(failed, key=lambda entry: entry.retry_count or 0)
    batch = next(iter(BatchSet(server)))
    return {"error": f"/error/{group.id}", "job": f"/job/{job.jid}", "batch": f"/batches/{batch.bid}"}


def take(browser: Browser, address: str, file: Path, size: tuple[int, int], *, dark: bool) -> None:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_load_state("networkidle")
    file.write_bytes(smaller(page.screenshot()))
    context.close()
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1024} KB")


def smaller(png: bytes) -> bytes:
    """Convert an image to a palette of its 256 most frequent colors; other colors become the nearest of these."""
    width, height, lines = pixels(png)
    counted = Counter(line[at : at + 3] for line in lines for at in range(0, len(line), 3))
    palette = [colour for colour, _ in counted.most_common(256)]
    places = {colour: place for place, colour in enumerate(palette)}
    for colour in counted:
        places.setdefault(colour, min(range(len(palette)), key=lambda place: apart(colour, palette[place])))
    rows = (bytes([0, *(places[line[at : at + 3]] for at in range(0, len(line), 3))]) for line in lines)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b""))
    return PNG + b"".join(chunk(kind, data) for kind, data in parts)


def apart(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pixels(png: bytes) -> tuple[int, int, list[bytes]]:
    """Return width, height, and the RGB bytes of each line of a PNG from Chromium."""
    width, height, _, colour = struct.unpack(">IIBB", png[16:26])
    size = {2: 3, 6: 4}[colour]
    packed, at = b"", len(PNG)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        packed += png[at + 8 : at + 8 + length] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    raw, stride = zlib.decompress(packed), width * size
    lines: list[bytes] = []
    above = bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        line = bytearray(raw[start + 1 : start + 1 + stride])
        unfiltered(raw[start], line, above, size)
        lines.append(bytes(line) if size == 3 else bytes(value for place, value in enumerate(line) if place % 4 != 3))
        above = line
    return width, height, lines


def unfiltered(kind: int, line: bytearray, above: bytearray, size: int) -> None:
    """Undo the filter of one line of a PNG in place."""
    for at in range(len(line) if kind else 0):
        left, up = line[at - size] if at >= size else 0, above[at]
        corner = above[at - size] if at >= size else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        else:
            nearest = left + up - corner
            guess = min((left, up, corner), key=lambda value: abs(nearest - value))
        line[at] = (line[at] + guess) & 0xFF


def main() -> int:
    wanted = sys.argv[1:] or [""]
    with tempfile.TemporaryDirectory(prefix="offsider-") as name:
        folder = Path(name)
        server = Server(folder / "server", persist=False)
        web = WebProcess(folder, server.url, "-r", "bench.incident.application")
        try:
            with (
                Incident(folder, server.url, Size(seconds=SECONDS), print) as incident,
                sync_playwright() as playwright,
            ):
                incident.play()
                paths = subjects(incident)
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for picture, path, size, dark in PICTURES:
                    if any(word in picture for word in wanted):
                        take(browser, web.url + paths.get(path, path), IMAGES / f"{picture}.png", size, dark=dark)
                browser.close()
        finally:
            web.close()
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
