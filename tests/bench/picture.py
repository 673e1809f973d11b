"""The outcome as a picture (SVG 1.1): what calls cost, how long they take at a steady rate, and what is owed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import escape

from tests.bench import figures as f
from tests.bench.figures import LOAD, PACES, Outcome, Row, paced, rows
from tests.bench.verdicts import Line, lines

# Rows whose bars are of one order of magnitude, so that one scale fits all.
COMPARED = (
    *(f.ECHO, f.NGINX_PROXY, f.ENVOY, f.ENVOY_BRIDGE, f.MINIMAL, f.MINIMAL_LIMITED),
    *(f.BARE, f.TOOLGATE, f.KEYED, f.GUARDED, f.REFERENCE, f.GUARDED_REDIS, f.REFERENCE_REDIS),
    *(f.LIMITED, f.UNKNOWN, f.FORGED, f.REDIS, f.REDIS_KEYED, f.WORKERS),
    *(f.TO_RCRT, f.CALLBACK, f.CALLBACK_REDIS),
    *(f.TOOLGATE_MANY, f.TOOLGATE_ROUTES, f.TOOLGATE_BACKENDS, f.TOOLGATE_CROWD),
)
OURS, OTHERS, OVER, FAINT, INK = "#2b6cb0", "#718096", "#c53030", "#bee3f8", "#1a202c"
THEIRS = frozenset({f.ECHO, f.NGINX_PROXY, f.ENVOY, f.ENVOY_BRIDGE, f.MINIMAL, f.MINIMAL_LIMITED, f.DIRECT})

WIDTH, LABELS, BARS, STEP = 960, 340, 470, 20  # pixels: all, names, the longest bar, one row
GAP, HEADING, MARGIN = 30, 26, 16
MOST = 1.5  # of what is owed; a bar that would be longer ends there


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a chart: how far it reaches, from where on it is faint, and what is written behind it."""

    name: str
    length: float
    text: str
    colour: str
    solid: float | None = None  # up to here it is solid; None: all of it


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars of one scale, with a line across them where `mark` is."""

    heading: str
    bars: list[Bar]
    mark: float | None = None


def svg(outcome: Outcome) -> str:
    """The whole picture; charts for which nothing was measured are left out."""
    charts = [chart for chart in (_cost(outcome), *_latency(outcome), _owed(outcome)) if chart.bars]
    elements: list[str] = []
    top = MARGIN
    for chart in charts:
        elements += _drawn(chart, top)
        top += HEADING + STEP * len(chart.bars) + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top}" fill="white"/>', *elements, "</svg>", ""])


def _cost(outcome: Outcome) -> Chart:
    found = {row.subject: row for row in rows(outcome) if row.connections == LOAD and row.cpu_us}
    bars = [_cost_bar(found[name]) for name in COMPARED if name in found]
    return Chart(f"CPU time of a call, microseconds, {LOAD} connections (median; range of the rounds)", bars)


def _cost_bar(row: Row) -> Bar:
    text = f"{row.cpu_us:.1f} ({row.cpu_us_min:.1f}-{row.cpu_us_max:.1f})"
    if row.of_echo is not None and row.subject != f.ECHO:
        text += f", {row.of_echo:.2f} x echo"
    return Bar(row.subject, row.cpu_us, text, OTHERS if row.subject in THEIRS else OURS)


def _latency(outcome: Outcome) -> Iterator[Chart]:
    """Time from when a call was due: solid up to the median, faint up to the 99th percentile."""
    found = {row.subject: row for row in rows(outcome)}
    for rate in PACES:
        bars = [
            Bar(
                name, row.p99_ms, f"{row.p50_ms:.2f} / {row.p99_ms:.2f}", OTHERS if name in THEIRS else OURS, row.p50_ms
            )
            for name in (f.DIRECT, f.NGINX_PROXY, f.REFERENCE)
            if (row := found.get(paced(name, rate))) is not None
        ]
        yield Chart(f"Time of a call at {rate:,.0f} calls/s, milliseconds (p50 / p99)", bars)


def _owed(outcome: Outcome) -> Chart:
    bars = [_owed_bar(line) for line in lines(outcome) if line.owed]
    return Chart("What was measured, as a part of what is owed (line: all of it)", bars, mark=1.0)


def _owed_bar(line: Line) -> Bar:
    assert line.owed
    used = line.owed / max(line.measured, 1e-9) if line.at_least else line.measured / line.owed
    word = "at least" if line.at_least else "at most"
    text = f"{line.measured:.2f} {line.unit}".rstrip() + f", {word} {line.owed:g}"
    return Bar(line.what, min(max(used, 0.0), MOST), text, OURS if line.ok else OVER)


def _drawn(chart: Chart, top: int) -> Iterator[str]:
    yield _text(MARGIN, top + 12, chart.heading, 'font-weight="bold"')
    begin = top + HEADING
    longest = max(*(bar.length for bar in chart.bars), chart.mark or 0.0, 1e-9)
    room = BARS - 130  # the longest bar's text stands behind it

    def pixels(length: float) -> float:
        return round(length / longest * room, 1)

    for number, bar in enumerate(chart.bars):
        y = begin + number * STEP
        yield _text(LABELS - 8, y + 12, bar.name, 'text-anchor="end"')
        yield from _bar(y, bar, pixels)
        yield _text(LABELS + pixels(max(bar.length, chart.mark or 0.0)) + 6, y + 12, bar.text, 'font-size="11"')
    if chart.mark is not None:
        x = LABELS + pixels(chart.mark)
        end = begin + STEP * len(chart.bars)
        yield f'<line x1="{x}" y1="{begin - 4}" x2="{x}" y2="{end}" stroke="{INK}" stroke-dasharray="3 3"/>'


def _bar(y: int, bar: Bar, pixels: Callable[[float], float]) -> Iterable[str]:
    if bar.solid is None:
        return [_rect(y, pixels(bar.length), bar.colour)]
    return [_rect(y, pixels(bar.length), FAINT), _rect(y, pixels(bar.solid), bar.colour)]


def _rect(y: int, width: float, colour: str) -> str:
    return f'<rect x="{LABELS}" y="{y}" width="{width}" height="{STEP - 5}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x}" y="{y}" {attributes}>{escape(text)}</text>'
