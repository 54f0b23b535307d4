"""CPU time and memory of drawing pictures, as a worker does it."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import time

from PIL import Image

from app.adapters.media.drawing import PillowDrawer
from app.models.media.blob import Purpose
from app.models.media.drawn import DrawingLimits
from bench.harness import Bench, benchmark

LIMITS = DrawingLimits(pixels=33_177_600, side=12_000, animation_pixels=200_000_000, animation_seconds=5.0)


def photograph(width: int, height: int, quality: int = 85, kind: str = "JPEG") -> bytes:
    """Return a picture with shapes and grain, which takes about as many bytes as a photograph."""
    grain = Image.frombytes(
        "RGB", (width // 3, height // 3), random.Random(7).randbytes(width // 3 * (height // 3) * 3)
    )
    base = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    target = io.BytesIO()
    Image.blend(base, grain.resize((width, height), Image.Resampling.BICUBIC), 0.35).save(
        target, kind, quality=quality
    )
    return target.getvalue()


def measure(source: bytes, purpose: Purpose) -> float:
    """Return the CPU milliseconds of drawing a picture."""
    drawer, start = PillowDrawer(LIMITS), time.process_time()
    drawer.draw(source, purpose)
    return (time.process_time() - start) * 1000


@benchmark("media_draw")
def drawing(bench: Bench) -> None:
    """Publish the CPU time of typical pictures, and the memory that a large one takes."""
    typical, icon = photograph(1200, 800), photograph(180, 180, kind="PNG")
    large = photograph(*((1500, 1000) if bench.quick else (6000, 4000)), quality=92)
    for name, source, purpose, most in (
        ("feed_picture", typical, Purpose.PICTURE, 150),
        ("avatar", typical, Purpose.AVATAR, 60),
        ("icon", icon, Purpose.ICON, 20),
        ("large_jpeg", large, Purpose.PICTURE, 600),
    ):
        measure(source, purpose)
        bench.figure(
            f"media_draw.{name}_ms",
            [measure(source, purpose) for _ in range(bench.repeats)],
            "ms",
            at_most=most,
        )
    bench.figure("media_draw.large_jpeg_mb", [measure_memory(large)], "MB", at_most=120)


def measure_memory(source: bytes) -> float:
    """Return the largest resident memory of a process that draws one picture, in MB."""
    code = (
        "import pathlib, re, sys\n"
        "from bench.media_draw import LIMITS, PillowDrawer, Purpose\n"
        "PillowDrawer(LIMITS).draw(sys.stdin.buffer.read(), Purpose.PICTURE)\n"
        # Not getrusage(): it counts what the parent took as well.
        "print(re.search(r'VmHWM:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], input=source, capture_output=True, check=True).stdout
    return int(shown) / 1024
