"""Take the screenshots of the web pages for the docs: a sample shop on its own server, rendered by Chromium.

    python scripts/take_screenshots.py            all screenshots, into docs/images/
    python scripts/take_screenshots.py busy       screenshots whose name contains this word

Needs Debian's chromium. The data of the shop is random with a fixed seed; times are relative to now.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import struct
import sys
import tempfile
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import redis
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.scoreboard.furniture import dumped  # noqa: E402
from offsider.core.backtrace import compress  # noqa: E402
from offsider.core.payload import new_jid  # noqa: E402
from offsider.embedded import EmbeddedServer  # noqa: E402
from offsider.inspector.job_metrics import BOUNDS_MS  # noqa: E402
from offsider.web.segments import segment  # noqa: E402
from tests.process.web_process import WebProcess  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDE, NARROW = (1300, 820), (390, 844)
#: name of the file, path, size, dark
PICTURES = (
    ("web-dashboard", "/", WIDE, False),
    ("web-dashboard-dark", "/", WIDE, True),
    ("web-dashboard-phone", "/", NARROW, False),
    ("web-busy", "/busy", WIDE, False),
    ("web-queues", "/queues", WIDE, False),
    ("web-retries", "/retries", WIDE, False),
    ("web-retries-phone", "/retries", NARROW, True),
    ("web-job", "retry", WIDE, True),
    ("web-metrics", "/metrics", WIDE, False),
    ("web-metrics-job", "/metrics/shop.orders.send_invoice", WIDE, True),
    ("web-errors", "/errors", WIDE, False),
    ("web-batch", "batch", WIDE, False),
)
#: The pages load it with `-r`, for the tabs of its extensions.
APPLICATION = """
from offsider import Config, configure_client
from offsider.ext.batches import Batches


@configure_client
def configure(config: Config) -> None:
    config.use(Batches())
"""


@dataclass(frozen=True)
class Kind:
    """One job class of the shop."""

    name: str
    queue: str
    runs_a_minute: int
    ms: float
    failing: float
    example: tuple[Any, ...]

    def args(self, dice: random.Random) -> list[Any]:
        """Return its arguments; ``#`` is replaced by a number."""
        text = json.dumps(self.example).replace('"#"', "#").replace("#", str(dice.randrange(1_000, 9_999)))
        return cast("list[Any]", json.loads(text))


JOBS = (
    Kind("shop.orders.send_invoice", "mail", 42, 180, 0.02, ("#",)),
    Kind("shop.images.make_thumbnails", "images", 18, 2_400, 0.01, ("products/#.jpg", [320, 640])),
    Kind("shop.search.index_product", "default", 75, 35, 0.0, ("#",)),
    Kind("shop.payments.capture", "critical", 12, 820, 0.09, ({"order": "#", "eur": 49.9},)),
    Kind("shop.reports.nightly", "low", 1, 31_000, 0.0, ("2026-11-20",)),
    Kind("Shop::Newsletter", "mail", 9, 260, 0.03, ("#", "november")),
)
#: Classes that fail; each has its own error below.
FAILING = (JOBS[3], JOBS[0], JOBS[5], JOBS[1])
QUEUES = {"critical": 3, "default": 128, "mail": 964, "images": 41, "low": 7, "import": 212}
PROCESSES = (
    ("shop-worker-7f9c6-x2x9k", ["critical", "default", "mail"], "shop"),
    ("shop-worker-7f9c6-8hq4d", ["critical", "default", "mail"], "shop"),
    ("shop-images-5d77c-lm2vw", ["images", "low"], "images"),
)
ERRORS = (
    ("requests.exceptions.ReadTimeout", "HTTPSConnectionPool(host='payments.example.com', port=443): Read timed out."),
    ("smtplib.SMTPServerDisconnected", "Connection unexpectedly closed"),
    ("KeyError", "'customer_id'"),
    ("PIL.UnidentifiedImageError", "cannot identify image file 'products/407.jpg'"),
)
FRAMES = (
    'File "/srv/shop/payments.py", line 88, in capture',
    "    response = session.post(url, json=body, timeout=30)",
    'File "/srv/shop/.venv/lib/python3.13/site-packages/requests/sessions.py", line 637, in post',
    '    return self.request("POST", url, data=data, json=json, **kwargs)',
    'File "/srv/shop/.venv/lib/python3.13/site-packages/requests/adapters.py", line 713, in send',
    "    raise ReadTimeout(e, request=request)",
)
CALLERS = ("POST /checkout", "shop.orders.ship", "GET /admin/orders", "nightly")
DAY = 86_400
PNG = b"\x89PNG\r\n\x1a\n"


class Shop:
    """Stores the data of a medium-sized shop."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._dice = random.Random(7)
        self._now = time.time()

    def open(self) -> dict[str, str]:
        """Store all data; return the paths of a retry and a batch for screenshots."""
        self._days()
        self._minutes()
        self._queues()
        for number, (host, queues, tag) in enumerate(PROCESSES):
            self._process(number, host, queues, tag)
        for number, (kind, error) in enumerate(zip(FAILING, ERRORS, strict=True)):
            self._group(number, kind, *error)
        self._set("schedule", 34, 60, 2 * DAY)
        self._set("dead", 5, -9 * DAY, -3_600)
        retry = self._set("retry", 23, 240, 4_000)
        return {"retry": f"/job/retry/{segment(retry)}", "batch": f"/batches/{self._batch()}"}

    def _job(self, kind: Kind, **fields: Any) -> dict[str, Any]:
        dice = self._dice
        at_ms = int((self._now - dice.uniform(1, 90)) * 1000)
        return {
            "class": kind.name,
            "args": kind.args(dice),
            "jid": new_jid(),
            "queue": kind.queue,
            "retry": True,
            "created_at": at_ms,
            "enqueued_at": at_ms,
            "tags": ["eu"] if dice.random() < 0.2 else [],
            "meta.caller_id": dice.choice(CALLERS),
            "correlation_id": f"{dice.getrandbits(64):016x}",
            **fields,
        }

    def _days(self) -> None:
        for ago in range(180):
            day = datetime.fromtimestamp(self._now - ago * DAY, UTC)
            busy = (0.55 if day.weekday() >= 5 else 1.0) * (0.7 if ago == 0 else 1)
            processed = int(210_000 * busy * self._dice.uniform(0.85, 1.15))
            failed = int(processed * self._dice.uniform(0.004, 0.02) * (6 if ago in {11, 12} else 1))
            self._store.set(f"stat:processed:{day:%Y-%m-%d}", processed)
            self._store.set(f"stat:failed:{day:%Y-%m-%d}", failed)
        self._store.set("stat:processed", 8_214_907)
        self._store.set("stat:failed", 112_388)

    def _minutes(self) -> None:
        for ago in range(-6, 8 * 60):  # including the next minutes, in which the screenshots are taken
            at = datetime.fromtimestamp(self._now - ago * 60, UTC)
            wave = 1 + 0.5 * math.sin(ago / 25) + (0.8 if 22 < ago < 30 else 0)
            for kind in JOBS:
                runs = max(0, round(self._dice.gauss(kind.runs_a_minute * wave, kind.runs_a_minute / 6)))
                failed = sum(self._dice.random() < kind.failing for _ in range(runs))
                took = [self._dice.lognormvariate(math.log(kind.ms), 0.5) for _ in range(runs - failed)]
                self._count(at, kind.name, runs, failed, took)
        deployed = datetime.fromtimestamp(self._now - 31 * 60, UTC)
        self._store.hset(f"{deployed:%Y%m%d}-marks", f"{deployed:%Y-%m-%dT%H:%M}:00Z", "v2026.47")

    def _count(self, at: datetime, name: str, runs: int, failed: int, took_ms: list[float]) -> None:
        minute = f"j|{at:%y%m%d}|{at.hour}:{at.minute:02d}"
        for key in (minute, minute[:-1]):
            for field, count in (("p", runs), ("f", failed), ("ms", round(sum(took_ms)))):
                self._store.hincrby(key, f"{name}|{field}", count)
        buckets = [0] * 26
        for ms in took_ms:
            buckets[next((place for place, bound in enumerate(BOUNDS_MS) if ms < bound), 25)] += 1
        packed = b"".join(count.to_bytes(2, "big") for count in buckets)
        self._store.set(f"h|{name}-{at.day}-{at.hour}:{at.minute}", packed)

    def _queues(self) -> None:
        for queue, size in QUEUES.items():
            kinds = [kind for kind in JOBS if kind.queue == queue] or [JOBS[2]]
            jobs = [self._job(self._dice.choice(kinds), queue=queue) for _ in range(size)]
            self._store.sadd("queues", queue)
            self._store.rpush(f"queue:{queue}", *(dumped(job) for job in jobs))
        self._store.sadd("paused", "import")

    def _process(self, number: int, host: str, queues: list[str], tag: str) -> None:
        identity = f"{host}:{7 + number}:{self._dice.getrandbits(48):012x}"
        info: dict[str, Any] = {
            "hostname": host,
            "pid": 7 + number,
            "identity": identity,
            "tag": tag,
            "labels": ["blue"] if number else [],
            "queues": queues,
            "weights": [dict.fromkeys(queues, 1)],
            "concurrency": 10,
            "version": "1.0.0",
            "started_at": self._now - 3_600 * (5 + number),
            "embedded": False,
        }
        fields = {"info": json.dumps(info), "busy": 4 - number, "beat": self._now, "rtt_us": 640, "quiet": "false"}
        self._store.sadd("processes", identity)
        self._store.hset(identity, mapping={**fields, "rss": 96_000 + 21_000 * number})
        for thread in range(4 - number):
            job = self._job(self._dice.choice([kind for kind in JOBS if kind.queue in queues]))
            since = int(self._now - self._dice.uniform(1, 40))
            work = {"queue": job["queue"], "payload": json.dumps(job), "run_at": since}
            self._store.hset(f"{identity}:work", f"t{thread}x{number}", json.dumps(work))

    def _set(self, name: str, size: int, nearest: float, farthest: float) -> str:
        """Fill a sorted set; return the key of its first job."""
        keys: list[str] = []
        for number in range(size):
            kind = self._dice.choice(FAILING if name != "schedule" else JOBS) if number else FAILING[0]
            error = ERRORS[FAILING.index(kind) if kind in FAILING else 0]
            job = self._job(kind, **(self._failure(number, *error) if name != "schedule" else {}))
            ahead = self._dice.uniform(nearest, farthest) if number else nearest
            score = round(self._now + ahead, 3)
            self._store.zadd(name, {dumped(job): score})
            self._attempts(job["jid"], *error)
            keys.append(f"{score}|{job['jid']}")
        return keys[0]

    def _failure(self, number: int, error_class: str, message: str) -> dict[str, Any]:
        failed_ms = int((self._now - 1_900 + number) * 1000)
        return {
            "error_class": error_class,
            "error_message": message,
            "error_backtrace": compress([*FRAMES], 8),
            "retry_count": self._dice.randrange(6),
            "failed_at": failed_ms,
            "retried_at": failed_ms + 400_000,
        }

    def _attempts(self, jid: str, error_class: str, message: str) -> None:
        for number in range(1, 4):
            attempt = {
                "number": number,
                "at": self._now - 4_000 + number * 1_000,
                "host": f"shop-worker-7f9c6-x2x9k:{6 + number}",
                "error_class": error_class,
                "error_message": message,
                "duration": 30.02 + number / 7,
            }
            self._store.lpush(f"offsider:attempts:{jid}", dumped(attempt))

    def _batch(self) -> str:
        """Store a batch of 1,200 thumbnails, two children, and what has failed in it; return its id."""
        bid = self._one_batch("Thumbnails of the autumn catalog", total=1_200, pending=291, ago=130)
        uploads = self._one_batch("Upload to the CDN", total=40, pending=0, ago=100, parent=bid)
        videos = self._one_batch("Previews of videos", total=64, pending=38, ago=90, parent=bid)
        self._store.sadd(f"b-{bid}-kids", uploads, videos)
        self._store.sadd(f"b-{bid}-pkids", videos)
        kind, error = JOBS[1].name, ERRORS[3][0]
        self._store.hset(f"b-{bid}-failed", mapping={new_jid(): f"{kind}: {error}" for _ in range(3)})
        self._store.hset(f"b-{bid}-died", new_jid(), f"{kind}: {error}")
        return bid

    def _one_batch(self, description: str, *, total: int, pending: int, ago: float, parent: str = "") -> str:
        bid, at_ms = new_jid(), int((self._now - ago) * 1000)
        fields: dict[str, Any] = {"description": description, "created_at": at_ms, "opened_at": at_ms, "total": total}
        if parent:
            fields |= {"parent": parent}
        else:
            death, success = new_jid(), new_jid()
            fields |= {"tags": dumped(["catalog"]), "death_at": at_ms + 41_000, f"pushed:{death}": at_ms + 41_000}
            for event, jid, name in (
                ("death", death, "shop.alerts.tell_team"),
                ("success", success, "shop.catalog.publish"),
            ):
                fields[f"on_{event}"] = dumped([{"name": name, "jid": jid, "queue": "critical"}])
        if pending:
            self._store.sadd(f"b-{bid}-jids", *(new_jid() for _ in range(pending)))
        else:
            fields |= {"complete_at": at_ms + 71_000, "success_at": at_ms + 71_000}
        self._store.hset(f"b-{bid}", mapping=fields)
        self._store.zadd("batches", {bid: self._now + 30 * DAY})
        return bid

    def _group(self, number: int, kind: Kind, error_class: str, message: str) -> None:
        hour, group = int(self._now // 3600), f"{number:016x}"
        info = {"class": kind.name, "error_class": error_class, "message": message, "queue": kind.queue}
        counts = {back: self._dice.randrange(1, 40) for back in range(36) if self._dice.random() < 0.7}
        fields: dict[str, object] = {
            "count": sum(counts.values()) + 40 * (4 - number),
            "first": self._now - 6 * DAY,
            "info": dumped(info),
            "jid": new_jid(),
            **{f"h{(hour - back) % 48}": f"{hour - back}:{count}" for back, count in counts.items()},
        }
        self._store.zadd("offsider:errors", {group: self._now - 40 * 4**number})
        stored = {f"{group}:{name}": value for name, value in fields.items()}
        self._store.hset("offsider:errors:fields", mapping=stored)


def take(browser: Browser, address: str, file: Path, size: tuple[int, int], *, dark: bool, store: Any) -> None:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.add_init_script("localStorage.setItem('offsider-interval', '1')")
    page = context.new_page()
    heartbeat(store, processed=0)
    page.goto(address)
    page.wait_for_load_state("networkidle")
    if address.endswith("/"):
        see_it_live(page, store)
    file.write_bytes(smaller(page.screenshot()))
    context.close()
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1024} KB")


def see_it_live(page: Page, store: Any) -> None:
    """Report rates for some seconds, to fill the live graph."""
    dice = random.Random(3)
    for _ in range(200):
        store.incrby("stat:processed", dice.randrange(2, 7))
        store.incrby("stat:failed", int(dice.random() < 0.1))
        heartbeat(store, processed=dice.uniform(9, 16), failed=dice.uniform(0, 0.6))
        page.wait_for_timeout(100)


def heartbeat(store: Any, *, processed: float, failed: float = 0.0) -> None:
    """Write the heartbeat and the rates per second of each process."""
    report = {"processed": processed, "failed": failed, "running": None, "at": time.time()}
    for identity in store.smembers("processes"):
        store.hset(identity, mapping={"beat": time.time(), "activity": json.dumps(report)})


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
    with tempfile.TemporaryDirectory(prefix="offsider-") as folder, EmbeddedServer(Path(folder), port=0) as server:
        store = cast("Any", redis.Redis)(unix_socket_path=str(Path(folder) / "server.sock"))
        paths = Shop(store).open()
        Path(folder, "shop.py").write_text(APPLICATION)
        web = WebProcess(Path(folder), server.url, "-r", "shop")
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for name, path, size, dark in PICTURES:
                    if any(word in name for word in wanted):
                        address = web.url + paths.get(path, path)
                        take(browser, address, IMAGES / f"{name}.png", size, dark=dark, store=store)
                browser.close()
        finally:
            web.close()
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
