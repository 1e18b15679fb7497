"""A plot with two logarithmic axes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 50, 60
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def log_log(title: str, sizes: Sequence[float], series: Mapping[str, Sequence[float]]) -> str:
    """Each series over the sizes, with a dashed line from its first point that grows linearly."""
    values = [value for one in series.values() for value in one]
    linear = [one[0] * sizes[-1] / sizes[0] for one in series.values()]
    x_low, x_high = _decades(sizes)
    y_low, y_high = _decades([*values, *linear])

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="16">{escape(title)}</text>',
        *_grid(range(x_low, x_high + 1), range(y_low, y_high + 1), x, y),
    ]
    for number, (name, one) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in zip(sizes, one, strict=True))
        end = one[0] * sizes[-1] / sizes[0]
        lines += [
            f'<line x1="{x(sizes[0]):.1f}" y1="{y(one[0]):.1f}" x2="{x(sizes[-1]):.1f}" y2="{y(end):.1f}" '
            f'stroke="{colour}" stroke-dasharray="3 5" opacity="0.6"/>',
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            *(
                f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="4" fill="{colour}"/>'
                for size, value in zip(sizes, one, strict=True)
            ),
            f'<text x="{LEFT + 16}" y="{TOP + 18 + 20 * number}" fill="{colour}">{escape(name)}</text>',
        ]
    lines += [
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">GPUs (dashed: linear)</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _grid(across: Sequence[int], up: Sequence[int], x: object, y: object) -> Iterator[str]:
    assert callable(x)
    assert callable(y)
    for power in across:
        at = x(10.0**power)
        yield f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{10**power:,}</text>'
    for power in up:
        at = y(10.0**power)
        yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
