"""Reads the lines of a command's output that match regular expressions.

What is not read for certain is refused: a part of a number, two numbers for one name, a line of no certain epoch.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.commands.entries import Chunks, Entry, equal, lines_of, numbers_of, shown, source_of
from trainmark.errors import CommandError
from trainmark.recipes.command import patterns_of

NUMBER = r"""
    (?:(?<![\w)\].%+\u2212-])[-+\u2212])?
    (?:\d{1,3}(?:[,'\u2019_]\d{3})+(?:\.\d+)?(?![,\d]) | \d{1,3}(?:\.\d{3})+,\d+(?![,.\d]) | (?<!,)\d+,\d+(?![,.\d])
      | \d+(?:\.\d+)* | (?<!\.)\.\d+)
    (?:[eE][-+]?\d+ | [kKMGT]\b)?
"""
"""One number, in any of the usual forms: 1,234.5 and 0,95 and 9.5e-05 and 1.2k are one each; 1,0.5,0.6 are three."""

NUMBERS = re.compile(NUMBER, re.VERBOSE)

TIMES = re.compile(
    rf"\d+(?::\d\d)+(?:[.,]\d+)? | (?:\d+\s?(?:h|hours?|m|min|minutes?),?\s?)*{NUMBER}"
    r"(?:\s?(?:[mnu\u00b5]s|m|min|minutes?|h|hours?|milliseconds?)\b)?",
    re.VERBOSE,
)
"""A number of seconds, or a time in another form, such as 1:23 and 1m 23 and 350 ms."""


@dataclass
class _Group:
    """What was read since an epoch ended. patterns: that which gave each value; matched: all that matched."""

    values: dict[str, float] = field(default_factory=dict)
    patterns: dict[str, int] = field(default_factory=dict)
    matched: set[int] = field(default_factory=set)
    seen: float | None = None

    def add(self, metrics: Mapping, pattern: int, values: Mapping[str, float], seen: float | None) -> None:
        """Add a match. Of several matches of one pattern, the last counts. Raises CommandError for two patterns."""
        for name, value in values.items():
            if self.patterns.get(name, pattern) != pattern and not equal(self.values[name], value):
                raise CommandError(
                    f"{source_of(metrics)} has {self.values[name]:g} and {value:g} as {name} in one epoch, by two "
                    "patterns: let only one of them name it"
                )
        self.values |= values
        self.patterns |= dict.fromkeys(values, pattern)
        self.matched.add(pattern)
        self.seen = seen


def read_matches(metrics: Mapping, text: Chunks) -> Iterator[Entry]:
    """Yield what the patterns read of a text. The last pattern, and the number of another epoch, ends an epoch.

    A match belongs to the epoch that its line names. Lines that name none are those of one epoch if, up to the match
    of the last pattern, each pattern has matched.

    Raises CommandError for a match that belongs to no certain epoch.
    """
    patterns = [re.compile(pattern) for pattern in patterns_of(metrics)]
    group, unnamed, incomplete = _Group(), "", False
    for seen, line in lines_of(text):
        for pattern, values in _matches(metrics, patterns, line):
            if group.values.get("epoch", values.get("epoch")) != values.get("epoch", group.values.get("epoch")):
                yield Entry(group.values, group.seen)
                group, incomplete = _Group(), True
            unnamed = unnamed or ("" if "epoch" in values else line)
            group.add(metrics, pattern, values, seen)
            if pattern == len(patterns) - 1:
                incomplete |= len(group.matched) < len(patterns)
                yield Entry(group.values, seen)
                group = _Group()
    if group.matched and "epoch" in group.values:
        yield Entry(group.values, group.seen)
    if unnamed and (incomplete or group.matched):
        raise CommandError(
            f"{source_of(metrics)} has the line {shown(unnamed)}, which names no epoch, and the patterns do not match "
            "in their order, each in every epoch: list them in the order of their lines, or read the epoch in each"
        )


def _matches(metrics: Mapping, patterns: Sequence[re.Pattern], line: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (number of the pattern, values) for each pattern that matches a line."""
    where = f"the line {shown(line)}"
    names: dict[tuple[int, int], str] = {}  # what each place of the line is read as
    for number, pattern in enumerate(patterns):
        values: dict[str, float] = {}
        matches = list(pattern.finditer(line))
        for match in matches:
            spans = {name: match.span(name) for name, value in match.groupdict().items() if value is not None}
            for name, span in spans.items():
                if (other := names.setdefault(span, name)) != name:
                    raise CommandError(
                        f"{source_of(metrics)} has {shown(match[name])} as {other} and as {name} in {where}: let each "
                        r"pattern match its own place alone (\b is where a word begins, ^ where a line does)"
                    )
                if cut := _cut_number(line, name, span, [*spans.values()]):
                    raise CommandError(
                        f"{source_of(metrics)} has {cut} in {where}, of which the pattern reads {shown(match[name])} "
                        rf"as {name}: let its group match the whole, such as (?P<{name}>\S+); a number has a point, a "
                        "time is in seconds"
                    )
            found = numbers_of(metrics, {name: match[name] for name in spans}, where)
            for name in found.keys() & values.keys():
                if not equal(values[name], found[name]):
                    raise CommandError(
                        f"{source_of(metrics)} has {values[name]:g} and {found[name]:g} as {name} in {where}: let the "
                        r"pattern match one place (\b is where a word begins, ^ where a line does)"
                    )
            values |= found
        if matches:
            yield number, values


def _cut_number(line: str, name: str, span: tuple[int, int], spans: Sequence[tuple[int, int]]) -> str | None:
    """Return the number of a line of which a group at span holds only a part; None if there is none.

    spans: of all groups. Where two groups are separated by a comma alone, the comma is no part of a number.
    """
    start, end = span
    if any(other_start == end + 1 or other_end == start - 1 for other_start, other_end in spans):
        return None
    for number in (TIMES if name.endswith("seconds") else NUMBERS).finditer(line):
        first = number.start() + len(re.match("(?:0+:)*", number[0])[0])  # type: ignore[index]  # of 00:18, the 18
        overlaps = number.start() < end and start < number.end()
        if overlaps and not (start <= first and number.end() <= end):
            return number[0]
    return None
