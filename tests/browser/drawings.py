"""Drawn pictures for demos: landscapes, a town, the sea, fruit, leaves, a street by night, comics.

The same address has the same picture, and one beside it most likely another.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable, Sequence

from PIL import Image, ImageDraw

#: Width and height of pictures of entries; most are wide.
SHAPES = ((960, 540), (960, 640), (720, 960), (960, 540), (800, 800), (600, 1000))
#: Parts of the addresses of comics, which are strips.
COMICS = ("egscomics", "donthitsave", "slackwyrm", "joshuawright")
#: Drawn so many times larger, so that edges are smooth.
FINE = 2

Color = tuple[int, int, int]
Draw = ImageDraw.ImageDraw
Scene = Callable[[Draw, random.Random, int, int], None]


def draw_picture(url: str) -> bytes:
    """Return the picture of an address as PNG; a strip of four panels for a comic."""
    seed = zlib.crc32(url.encode())
    if any(comic in url for comic in COMICS):
        image = Image.new("RGB", (900, 3500), "white")
        for number in range(4):
            image.paste(_draw(seed + number, 860, 820), (20, 20 + 870 * number))
    else:
        scene = next((name for name in SCENES if f"/{name}/" in url), "")
        image = _draw(seed, *SHAPES[0 if scene else seed % len(SHAPES)], scene)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _draw(seed: int, width: int, height: int, scene: str = "") -> Image.Image:
    chance = random.Random(seed)
    image = Image.new("RGB", (width * FINE, height * FINE))
    draw = SCENES.get(scene) or [*SCENES.values()][seed // 7 % len(SCENES)]
    draw(ImageDraw.Draw(image), chance, width * FINE, height * FINE)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _mix(one: Color, other: Color, part: float) -> Color:
    a, b, c = (round(x + (y - x) * part) for x, y in zip(one, other, strict=True))
    return a, b, c


def _sky(draw: Draw, width: int, height: int, top: Color, bottom: Color) -> None:
    for y in range(height):
        draw.line((0, y, width, y), fill=_mix(top, bottom, y / height))


def _disc(draw: Draw, x: float, y: float, radius: float, fill: Color) -> None:
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)


def _ridge(
    chance: random.Random, width: int, top: float, rough: float, steps: int
) -> list[tuple[float, float]]:
    return [(width * n / steps, top + chance.uniform(-rough, rough)) for n in range(steps + 1)]


def _layers(
    draw: Draw,
    chance: random.Random,
    size: tuple[int, int],
    colors: Sequence[Color],
    rough: float,
    steps: int,
) -> None:
    width, height = size
    for n, color in enumerate(colors):
        top = height * (0.45 + 0.16 * n)
        ridge = _ridge(chance, width, top, height * rough, steps + n)
        draw.polygon([(0, height), *ridge, (width, height)], fill=color)


def _hills(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    _sky(draw, width, height, (190, 214, 234), (240, 236, 220))
    _disc(draw, width * chance.uniform(0.2, 0.8), height * 0.25, height * 0.08, (252, 230, 170))
    _layers(draw, chance, (width, height), ((150, 178, 150), (104, 146, 112), (60, 104, 80)), 0.06, 6)


def _mountains(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    _sky(draw, width, height, (64, 88, 140), (242, 178, 150))
    _disc(draw, width * chance.uniform(0.15, 0.85), height * 0.3, height * 0.05, (255, 236, 214))
    _layers(draw, chance, (width, height), ((122, 110, 148), (86, 80, 122), (48, 48, 84)), 0.16, 9)


def _sea(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    _sky(draw, width, height, (120, 190, 224), (226, 240, 244))
    line = height * 0.55
    for n in range(12):
        y = line + (height - line) * n / 12
        draw.rectangle((0, y, width, height), fill=_mix((40, 122, 160), (14, 62, 98), n / 12))
    for _ in range(3):
        x, y, mast = (
            chance.uniform(0.1, 0.85) * width,
            line + height * chance.uniform(0.02, 0.3),
            height * 0.18,
        )
        draw.polygon(((x, y - mast), (x, y - 8), (x + mast * 0.5, y - 8)), fill=(250, 248, 240))
        draw.polygon(((x - 10, y - mast * 0.8), (x - 10, y - 8), (x - mast * 0.3, y - 8)), fill=(226, 96, 72))
        draw.polygon(
            ((x - mast * 0.4, y), (x + mast * 0.6, y), (x + mast * 0.4, y + 24), (x - mast * 0.25, y + 24)),
            fill=(72, 44, 36),
        )


def _town(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    _sky(draw, width, height, (246, 222, 190), (252, 240, 222))
    walls = ((198, 92, 66), (226, 158, 78), (92, 128, 140), (232, 206, 160), (120, 90, 110), (176, 190, 150))
    x = 0.0
    while x < width:
        wide, top = width * chance.uniform(0.1, 0.18), height * chance.uniform(0.25, 0.5)
        color = chance.choice(walls)
        draw.rectangle((x, top, x + wide, height), fill=color)
        draw.polygon(
            ((x - 6, top), (x + wide / 2, top - wide * 0.4), (x + wide + 6, top)),
            fill=_mix(color, (60, 30, 30), 0.55),
        )
        for row in range(int((height - top) / (wide * 0.5))):
            for place in (0.18, 0.6):
                left, up = x + wide * place, top + wide * (0.18 + 0.5 * row)
                draw.rectangle(
                    (left, up, left + wide * 0.2, up + wide * 0.28),
                    fill=(252, 238, 190) if chance.random() < 0.4 else (70, 82, 100),
                )
        x += wide


def _fruit(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    wall = chance.choice(((222, 230, 220), (236, 220, 206), (208, 220, 232)))
    draw.rectangle((0, 0, width, height), fill=wall)
    draw.rectangle((0, height * 0.66, width, height), fill=_mix(wall, (110, 72, 48), 0.75))
    radius = min(width, height) * 0.13
    for n, color in enumerate(
        chance.sample(((214, 62, 48), (238, 154, 40), (230, 200, 60), (120, 160, 60), (142, 60, 100)), 4)
    ):
        x, y = width * (0.22 + 0.18 * n), height * (0.7 + 0.05 * (n % 2))
        _disc(draw, x + radius * 0.15, y + radius * 0.75, radius * 0.8, _mix(wall, (60, 40, 30), 0.8))
        _disc(draw, x, y, radius, color)
        _disc(draw, x - radius * 0.35, y - radius * 0.35, radius * 0.22, _mix(color, (255, 255, 255), 0.6))
        draw.line(
            (x, y - radius, x + radius * 0.15, y - radius * 1.35), fill=(74, 56, 40), width=int(radius * 0.12)
        )


def _leaves(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    ground = chance.choice(((24, 62, 54), (246, 238, 222), (66, 44, 62)))
    draw.rectangle((0, 0, width, height), fill=ground)
    colors = ((96, 158, 108), (56, 120, 92), (216, 172, 80), (202, 96, 72), (150, 190, 140))
    size = min(width, height)
    for _ in range(46):
        x, y, long = chance.uniform(0, width), chance.uniform(0, height), size * chance.uniform(0.1, 0.2)
        lean, color = chance.uniform(-0.8, 0.8), chance.choice(colors)
        tip, side = (x + long * lean, y - long), long * 0.3
        draw.polygon(
            (
                (x, y),
                (x - side + long * lean / 2, y - long / 2),
                tip,
                (x + side + long * lean / 2, y - long / 2),
            ),
            fill=color,
        )
        draw.line(((x, y), tip), fill=_mix(color, ground, 0.5), width=4)


def _night(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    _sky(draw, width, height, (14, 18, 48), (84, 60, 112))
    for _ in range(90):
        _disc(
            draw,
            chance.uniform(0, width),
            chance.uniform(0, height * 0.55),
            chance.uniform(1, 4),
            (240, 240, 220),
        )
    _disc(draw, width * 0.75, height * 0.2, height * 0.07, (246, 240, 214))
    x = 0.0
    while x < width:
        wide, top = width * chance.uniform(0.05, 0.11), height * chance.uniform(0.35, 0.72)
        draw.rectangle((x, top, x + wide, height), fill=(26, 24, 46))
        for row in range(int((height - top) / 44)):
            for column in range(int(wide / 36)):
                if chance.random() < 0.35:
                    left, up = x + 10 + column * 36, top + 16 + row * 44
                    draw.rectangle((left, up, left + 16, up + 22), fill=(250, 206, 110))
        x += wide + 4


def _shapes(draw: Draw, chance: random.Random, width: int, height: int) -> None:
    colors = [(236, 98, 72), (252, 200, 92), (42, 92, 140), (240, 232, 216), (34, 44, 60), (120, 176, 168)]
    draw.rectangle((0, 0, width, height), fill=(240, 232, 216))
    cell = min(width, height) // 4
    for left in range(0, width, cell):
        for up in range(0, height, cell):
            ground, front = chance.sample(colors, 2)
            draw.rectangle((left, up, left + cell, up + cell), fill=ground)
            turn = chance.randrange(4) * 90
            if chance.random() < 0.6:
                draw.pieslice((left, up, left + cell, up + cell), turn, turn + 180, fill=front)
            else:
                _disc(draw, left + cell / 2, up + cell / 2, cell * 0.32, front)


#: By the part of an address that asks for one.
SCENES: dict[str, Scene] = {
    "hills": _hills,
    "town": _town,
    "sea": _sea,
    "fruit": _fruit,
    "mountains": _mountains,
    "leaves": _leaves,
    "night": _night,
    "shapes": _shapes,
}
