"""Plots as small SVGs: no script, no file beside them, readable on light and dark ground."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.records import Change, Comparison, Disagreement, Timing, Trial
from tilewright.report import svg, tables, words
from tilewright.report.svg import LINE, PAD, WIDTH
from tilewright.wording import percent

MAX_BARS = 24
MAX_DOTS = 200
_VERDICT_STYLES = {"FASTER": "good", "SLOWER": "bad", "SAME": "soft", "UNDECIDED": "warn"}
_RATIOS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.33,
    0.5,
    0.67,
    0.8,
    0.9,
    0.95,
    1,
    1.05,
    1.1,
    1.25,
    1.5,
    2,
    3,
    5,
    10,
    20,
    50,
    100,
)
_TILE_CLASSES = (
    ("t0", "within tolerance"), ("t1", "up to 10 times"), ("t2", "up to 100 times"), ("t3", "more, or not a number"),
)  # fmt: skip


# --------------------------------------------------------------------------------------------- tile map


def tile_map(found: Disagreement) -> str:
    """Where an output is wrong: a square for each tile, darker the further its worst error is over the tolerance.

    An output without a tile map (another shape, another dtype) gives an empty text.
    """
    rows, columns = found.tile_grid
    if not found.tiles or rows * columns != len(found.tiles):
        return ""
    left, top = PAD + 44.0, PAD + LINE * 2 + 6.0
    side = min((WIDTH - left - PAD) / columns, 18.0)
    high = max(side, 12.0) if rows <= 4 else side
    body = [
        svg.text(PAD, PAD + 10, f"{found.output}, shape {'x'.join(map(str, found.shape))}", room=WIDTH - 2 * PAD),
        *_indices(columns, found.tile_shape[1], side, lambda at: (left + at, top - 5), "middle"),
        *_indices(rows, found.tile_shape[0], high, lambda at: (left - 5, top + at + 4), "end"),
    ]
    for number, over in enumerate(found.tiles):
        row, column = divmod(number, columns)
        style = _TILE_CLASSES[_tile_class(over)][0]
        body.append(
            svg.rect(
                left + column * side, top + row * high, side - 0.8, high - 0.8, style, _tile_tip(found, row, column)
            )
        )
    bottom = top + rows * high + 8
    folded = "" if len(found.shape) <= 2 else ", the worst of the others"
    body.append(
        svg.text(PAD, bottom + 10, f"rows and columns of the last two dims{folded}", "soft", room=WIDTH - 2 * PAD)
    )
    legend, taken = svg.legend(PAD, bottom + LINE + 4, list(_TILE_CLASSES), WIDTH - PAD)
    wrong = sum(_tile_class(over) > 0 for over in found.tiles)
    title = f"{found.output}: {words.part(wrong, len(found.tiles), 'tile', ('is wrong', 'are wrong'))}"
    return svg.document(bottom + LINE + 4 + taken + PAD, title, [*body, *legend])


def _indices(
    count: int, extent: int, side: float, where: Callable[[float], tuple[float, float]], anchor: str
) -> list[str]:
    """Element indices at the first of every few tiles, with room for their digits."""
    room = 34 if anchor == "middle" else LINE + 2
    step = max(1, math.ceil(room / side))
    return [svg.text(*where((i + 0.5) * side), str(i * extent), "soft", anchor) for i in range(0, count, step)]


def _tile_class(over: float) -> int:
    if not math.isfinite(over):
        return 3
    return 0 if over <= 1 else 1 if over <= 10 else 2 if over <= 100 else 3


def _tile_tip(found: Disagreement, row: int, column: int) -> str:
    shape = found.shape if len(found.shape) > 1 else (1, *found.shape)
    spans = []
    for name, index, extent, size in (
        ("row", row, found.tile_shape[0], shape[-2]),
        ("column", column, found.tile_shape[1], shape[-1]),
    ):
        first, last = index * extent, min((index + 1) * extent, size) - 1
        spans.append(f"{name} {first}" if first == last else f"{name}s {first} to {last}")
    over = found.tiles[row * found.tile_grid[1] + column]
    worst = f"{over:.3g} times the tolerance" if math.isfinite(over) else "not finite, or infinitely far"
    return f"{', '.join(spans)}: {worst}"


# ----------------------------------------------------------------------------------------------- trials


OFF_THE_SCALE = 4.0
"""Bars are cut where a time is this many times the shortest."""
FIGURE_ROOM = 100
"""Room behind the longest bar for its figure: ``… 1,186,187 µs``."""


def trial_bars(trials: Sequence[Trial]) -> str:
    """Predicted time, and measured time where there is one, of each configuration that has either.

    In the order given; of more than ``MAX_BARS`` the first. Empty if none has a time.
    """
    known = [t for t in trials if t.predicted_seconds is not None or t.median_seconds is not None]
    if not known:
        return ""
    shown = known[:MAX_BARS]
    common = tables.common_values(trials)
    times = [s for t in shown for s in (t.predicted_seconds, t.median_seconds) if s is not None]
    # One configuration that spills everything must not flatten the rest: it runs off the scale, and says so.
    longest = min(max(times), OFF_THE_SCALE * min(times)) or 1.0
    scale = (WIDTH - 2 * PAD - FIGURE_ROOM) / longest
    measured = any(t.median_seconds is not None for t in shown)
    kinds = [("main", "measured")] if measured else []
    kinds += [("hollow", "predicted")] if any(t.predicted_seconds is not None for t in shown) else []
    body, taken = svg.legend(PAD, PAD, kinds)
    y = PAD + taken + 6
    for trial in shown:
        style = "bad" if trial.status == "wrong" else ""
        label = tables.config_text(trial, without=common) + (" (wrong)" if style else "")
        body.append(svg.text(PAD, y + 10, label, style, room=WIDTH - 2 * PAD))
        y += LINE
        for kind, seconds in (("main", trial.median_seconds), ("hollow", trial.predicted_seconds)):
            if seconds is not None:
                figure = f"{words.microseconds(seconds)} µs"
                width = min(seconds, longest) * scale
                beyond = "… " if seconds > longest else ""
                body.append(svg.rect(PAD, y, width, 10, kind, f"{label}: {figure}"))
                body.append(svg.text(PAD + width + 6, y + 9.5, beyond + figure, "soft"))
                y += 14
        y += 5
    if len(known) > len(shown):
        body.append(svg.text(PAD, y + 10, f"and {len(known) - len(shown)} more", "soft"))
        y += LINE
    what = "measured and predicted" if len(kinds) == 2 else kinds[0][1]
    return svg.document(y + PAD, f"{what} time of {words.count(len(shown), 'configuration')}", body)


# -------------------------------------------------------------------------------------------- latencies


def distribution(timings: Sequence[Timing]) -> str:
    """The samples of each side as dots, with the box from first to third quartile and the median.

    Samples far outside their box are counted at the edge, not drawn: one hiccup would flatten the rest.
    """
    sides = [t for t in timings if t.count]
    if not sides:
        return ""
    low = min(min(t.samples, default=t.first_quartile) for t in sides)
    fences = [t.third_quartile + 4 * max(t.third_quartile - t.first_quartile, 0.01 * t.median) for t in sides]
    high = max(min(max(t.samples, default=t.third_quartile), fence) for t, fence in zip(sides, fences, strict=True))
    span = (high - low) or high * 0.1 or 1.0
    low, high = low - 0.04 * span, high + 0.04 * span

    def x(seconds: float) -> float:
        return PAD + (seconds - low) / (high - low) * (WIDTH - 2 * PAD)

    body: list[str] = []
    y = float(PAD)
    for timing in sides:
        body += _strip(timing, x, y, high)
        y += LINE + 36
    body += _time_axis(low, high, x, y)
    return svg.document(y + LINE + 14, "latencies of " + ", ".join(t.side for t in sides), body)


def _strip(timing: Timing, x: Callable[[float], float], y: float, high: float) -> list[str]:
    beyond = sum(sample > high for sample in timing.samples)
    said = f"{timing.side}: median {words.microseconds(timing.median)} µs, {words.count(timing.count, 'sample')}"
    said += f", {beyond} beyond the edge" if beyond else ""
    top, middle = y + LINE, y + LINE + 13
    pieces = [svg.text(PAD, y + 10, said, room=WIDTH - 2 * PAD)]
    step = max(1, math.ceil(len(timing.samples) / MAX_DOTS))
    for number, sample in enumerate(timing.samples[::step]):
        if sample <= high:
            # Spread over the strip's height by the golden ratio: even, and the same every time.
            pieces.append(svg.dot(x(sample), top + 2 + 22 * (number * 0.618 % 1), 1.8, "dot"))
    first, third = x(timing.first_quartile), x(timing.third_quartile)
    tip = f"quartiles {words.microseconds(timing.first_quartile)} and {words.microseconds(timing.third_quartile)} µs"
    pieces.append(svg.rect(first, middle - 9, max(third - first, 1), 18, "box", f"{timing.side}: {tip}"))
    pieces.append(svg.line(x(timing.median), top, x(timing.median), top + 26, "median"))
    return pieces


def _time_axis(low: float, high: float, x: Callable[[float], float], y: float) -> list[str]:
    pieces = [svg.line(PAD, y, WIDTH - PAD, y, "rule")]
    step = _round_step((high - low) / 4)
    tick = math.ceil(low / step) * step
    digits = max(0, -math.floor(math.log10(step * 1e6) + 1e-9))
    while tick <= high:
        at = x(tick)
        anchor = "start" if at < PAD + 20 else "end" if at > WIDTH - PAD - 20 else "middle"
        pieces += [
            svg.line(at, y, at, y + 4, "rule"),
            svg.text(at, y + 17, f"{tick * 1e6:.{digits}f} µs", "soft", anchor),
        ]
        tick += step
    return pieces


def _round_step(wanted: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= wanted * 0.999)


COURSE_HEIGHT = 34
_COURSE_REACH = 0.02  # at least: 2 % fill half of a side's height


def course(timings: Sequence[Timing]) -> str:
    """How each side's time went: medians of successive stretches over its median, process after process."""
    sides = [t for t in timings if len(t.over_time) > 1 and t.median > 0]
    if not sides:
        return ""
    logs = [[math.log(value / t.median) for value in t.over_time] for t in sides]
    reach = max([abs(log) for one in logs for log in one] + [_COURSE_REACH])
    body: list[str] = []
    y = float(PAD)
    for timing, one in zip(sides, logs, strict=True):
        body.append(svg.text(PAD, y + 10, f"{timing.side} over time, ±{percent(math.expm1(reach))}", "soft"))
        middle = y + LINE + COURSE_HEIGHT / 2
        body.append(svg.line(PAD, middle, WIDTH - PAD, middle, "rule"))
        step = (WIDTH - 2 * PAD) / len(one)
        for process in range(1, len(timing.processes)):
            at = PAD + process * step * len(one) / len(timing.processes)
            body.append(svg.line(at, y + LINE, at, y + LINE + COURSE_HEIGHT, "rule"))
        for number, log in enumerate(one):
            body.append(svg.dot(PAD + (number + 0.5) * step, middle - log / reach * COURSE_HEIGHT / 2, 1.8, "main"))
        y += LINE + COURSE_HEIGHT + 6
    return svg.document(y + PAD, "times of " + ", ".join(t.side for t in sides) + " over time", body)


# ----------------------------------------------------------------------------------------------- ratios


@dataclass(frozen=True)
class _Row:
    """One ratio to draw: its words, its interval, the noise around 1, and those of single processes."""

    said: str
    verdict: str
    ratio: float
    low: float
    high: float
    noise: float = 0.0
    processes: tuple[float, ...] = ()


def ratio_intervals(comparisons: Sequence[Comparison]) -> str:
    """Each ratio as a dot with its interval, on a logarithmic axis around 1; right of 1 ours is faster.

    The ratios of single processes are small dots below.
    """
    rows = [
        _Row(f"{c.shape}, against {c.baseline}", c.verdict, c.ratio, c.low, c.high, c.noise_floor or 0.0, c.processes)
        for c in comparisons
    ]
    return _intervals(rows, "ours faster →", "ratios to the baselines, with intervals")


def change_intervals(changes: Sequence[Change]) -> str:
    """Each change as a dot with its interval; right of 1 it is faster now. Shapes without a ratio are left out."""
    rows = [_Row(c.shape, c.verdict, c.ratio, c.low, c.high, c.margin or 0.0) for c in changes if c.ratio is not None]
    return _intervals(rows, "faster now →", "changes since an earlier measurement, with intervals")


def _intervals(rows: Sequence[_Row], right: str, title: str) -> str:
    if not rows:
        return ""
    ends = [value for r in rows for value in (r.low, r.high, r.ratio) if math.isfinite(value) and value > 0]
    noise = max(r.noise for r in rows)
    reach = max([abs(math.log(value)) for value in ends] + [min(noise, 1.0), 0.05]) * 1.08
    middle, half = WIDTH / 2, WIDTH / 2 - PAD - 6
    lowest, highest = min([0.0, *map(math.log, ends)]), max([0.0, *map(math.log, ends)])
    # The axis is symmetric only if there is something on both sides: else half of the plot would be empty.
    if lowest > -0.25 * reach:
        middle, half = WIDTH * 0.28, WIDTH * 0.72 - PAD - 6
    elif highest < 0.25 * reach:
        middle, half = WIDTH * 0.72, WIDTH * 0.72 - PAD - 6

    def x(value: float) -> float:
        if value <= 0:
            return PAD
        if math.isinf(value):
            return WIDTH - PAD
        return min(max(middle + math.log(value) / reach * half, PAD), WIDTH - PAD)

    top = PAD + LINE + 4.0
    bottom = top + len(rows) * (LINE + 20) + 2
    body = [svg.text(PAD, PAD + 10, "← slower", "soft"), svg.text(WIDTH - PAD, PAD + 10, right, "soft", "end")]
    for number, row in enumerate(rows):
        body += _whisker(row, x, top + number * (LINE + 20) + 2)
    body += _ratio_axis(x, bottom)
    return svg.document(bottom + LINE + 12, title, body)


def _whisker(row: _Row, x: Callable[[float], float], y: float) -> list[str]:
    style = _VERDICT_STYLES[row.verdict]
    tip = f"{row.said}: {row.ratio:.3f}, interval {words.interval(row.low, row.high)}"
    level = y + LINE + 8
    low, high = x(row.low), x(row.high)
    left, right = x(1 / (1 + row.noise)), x(1 + row.noise)
    return [
        svg.text(PAD, y + 11, row.said, room=WIDTH - 2 * PAD - 130),
        svg.text(WIDTH - PAD, y + 11, f"{row.ratio:.3f} {row.verdict}", style, "end"),
        svg.rect(left, level - 9, right - left, 18, "pale", f"{100 * row.noise:.1f} % around 1"),
        svg.line(x(1.0), level - 9, x(1.0), level + 9, "axis"),
        svg.line(low, level, high, level, f"whisker {style}"),
        # Caps on a narrow interval would hide the dot.
        *(svg.line(end, level - 4, end, level + 4, f"whisker {style}") for end in (low, high) if high - low > 12),
        svg.dot(x(row.ratio), level, 4.5, style, tip),
        *(svg.dot(x(one), level + 8, 1.8, "dot") for one in row.processes if len(row.processes) > 1),
    ]


def _ratio_axis(x: Callable[[float], float], y: float) -> list[str]:
    pieces = [svg.line(PAD, y, WIDTH - PAD, y, "rule")]
    taken = [x(1.0)]
    # From 1 outwards, so that 1 is there, and what would run into a neighbour is not.
    for value in sorted(_RATIOS, key=lambda ratio: abs(math.log(ratio))):
        at = x(value)
        inside = PAD + 8 < at < WIDTH - PAD - 8
        if inside and (value == 1 or all(abs(at - other) > 38 for other in taken)):
            taken.append(at)
            pieces += [svg.line(at, y, at, y + 4, "rule"), svg.text(at, y + 17, f"{value:g}", "soft", "middle")]
    return pieces
