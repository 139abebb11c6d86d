"""Reads the lines of a command's output that match regular expressions.

What is not read for certain is refused: a part of a number, two numbers for one name, a line of no certain epoch.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.commands.entries import Chunks, Entry, equal, lines_of, numbers_of, shown, source_of
from trainmark.errors import CommandError
from trainmark.recipes.command import patterns_of

NUMBER = r"""
    (?:(?<![\w)\].%+\u2212-])[-+\u2212])?
    (?:\d{1,3}(?:[,'_\u2019\u00a0\u2009\u202f]\d{3})+(?:\.\d+)?(?![,\d]) | \d{1,3}(?:\.\d{3})+,\d+(?![,.\d])
      | (?<!,)\d+,\d+(?![,.\d]) | \d+(?:\.\d+)* | (?<!\.)\.\d+)
    (?:[eEdD][-+\u2212]?\d+ | \s?[*\u00d7]\s?10 | [kKMGT]\b)?
"""
"""One number, in any of the usual forms: 1,234.5 and 0,95 and 9.5e-05 and 1.2k are one each; 1,0.5,0.6 are three."""

NUMBERS = re.compile(NUMBER, re.VERBOSE)

MOST_CHARACTERS = 40
"""A number is not longer than this."""

LONGER = r"(?:d|days?|h|hrs?|hours?|m|mins?|minutes?)"
"""Units of time that are longer than a second."""

TIMES = re.compile(
    rf"""(?:\d+(?: :(?=\d\d) | \s*(?:{LONGER}\b:? | ['\u2019])[\s,;]*(?:and\s+)?))* {NUMBER}
    (?:\s*(?:{LONGER}|[mnu\u00b5\u03bc]s(?:ecs?)?|millis|(?:milli|micro|nano)seconds?)\b)?""",
    re.VERBOSE | re.IGNORECASE,
)
"""A number of seconds, or a time in another form, such as 1:23 and 1m 23 and 350 ms."""


@dataclass
class _Match:
    """What a pattern read of a line. place: the letters of the line, and the numbers that the pattern did not read."""

    line: str
    pattern: int
    values: dict[str, float]
    place: tuple[str, tuple[str, ...]]


@dataclass
class _Group:
    """The matches of one epoch, as far as they are read."""

    values: dict[str, float] = field(default_factory=dict)
    matches: list[_Match] = field(default_factory=list)
    seen: float | None = None

    def add(self, metrics: Mapping, match: _Match, last_pattern: int, seen: float | None) -> None:
        """Add a match. Raises CommandError for another value of what was read before, except of lines of progress.

        Such lines, of the batches of a training for example, follow each other and differ in a number that counts;
        the last of them counts.
        """
        before = self.matches[-1] if self.matches else match
        progress = before.pattern == match.pattern < last_pattern and before.place != match.place
        for name in match.values.keys() & self.values.keys():
            same_line = progress and before.place[0] == match.place[0]
            part = name == "seconds" and before.pattern != match.pattern  # one of its training, one of its test
            if part or not (equal(self.values[name], match.values[name]) or same_line):
                epoch = f"epoch {self.values['epoch']:g}" if "epoch" in self.values else "an epoch"
                raise CommandError(
                    f"{source_of(metrics)} has {epoch} twice, with {name} {self.values[name]:g} and "
                    f"{match.values[name]:g}: let one line of each epoch match, of one process and of one fit"
                )
        self.values |= match.values
        self.matches.append(match)
        self.seen = seen


def read_matches(metrics: Mapping, text: Chunks) -> Iterator[Entry]:
    """Yield what the patterns read of a text.

    A match belongs to the epoch that its line names. If the first pattern names an epoch, a line that names none is of
    the epoch that was named before it. Else the lines are of one epoch up to the match of the last pattern, and each
    pattern has to match in it.

    Raises CommandError for a match that belongs to no certain epoch, and for a pattern that matches nothing.
    """
    patterns = [re.compile(pattern) for pattern in patterns_of(metrics)]
    last = len(patterns) - 1
    headed = "epoch" in patterns[0].groupindex
    group, ended, unused = _Group(), _Group(), {*range(len(patterns))}
    diverged = False
    for seen, line in lines_of(text):
        for match in _matches(metrics, patterns, line):
            unused.discard(match.pattern)
            diverged |= not all(map(math.isfinite, match.values.values()))
            epoch = match.values.get("epoch")
            if headed and epoch not in (None, group.values.get("epoch")) and group.matches:
                yield Entry(group.values, group.seen)
                group = _Group()
            if headed and epoch is None and not group.matches:
                raise CommandError(
                    f"{source_of(metrics)} has the line {shown(line)} before any line that names an epoch: let the "
                    "pattern match the lines of epochs alone"
                )
            again = last and not headed and not group.matches and match.pattern == last and ended.matches
            if again and all(equal(ended.values[name], value) for name, value in match.values.items()):
                continue  # another rank's report of the epoch that has just ended
            group.add(metrics, match, last, seen)
            if not headed and match.pattern == last:
                _check_complete(metrics, patterns, group)
                yield Entry(group.values, seen)
                group, ended = _Group(), group
    if group.matches and (headed or diverged):
        yield Entry(group.values, group.seen)
    elif ended.matches:
        _check_complete(metrics, patterns, group)
    if unused and len(unused) <= last and not diverged:
        raise CommandError(f"{source_of(metrics)} has no line that matches the pattern {patterns[min(unused)].pattern}")


def _check_complete(metrics: Mapping, patterns: Sequence[re.Pattern], group: _Group) -> None:
    """Raise CommandError if some patterns have matched and others have not."""
    if group.matches and (missing := {*range(len(patterns))} - {match.pattern for match in group.matches}):
        raise CommandError(
            f"{source_of(metrics)} has no match of {shown(patterns[min(missing)].pattern)} beside the line "
            f"{shown(group.matches[-1].line)}: list the patterns in the order of their lines, each with one match an "
            "epoch; or read the epoch in the first pattern, or in each"
        )


def _matches(metrics: Mapping, patterns: Sequence[re.Pattern], line: str) -> list[_Match]:
    """Return the match of each pattern that matches a line."""
    found = []
    names: dict[tuple[int, int], str] = {}  # what each place of the line is read as
    for number, pattern in enumerate(patterns):
        values: dict[str, float] = {}
        places: list[tuple[int, int]] = []
        matches = list(pattern.finditer(line))
        for match in matches:
            spans = {name: match.span(name) for name, value in match.groupdict().items() if value is not None}
            places += spans.values()
            _check_places(metrics, match, spans, names)
            _add_values(metrics, values, {name: match[name] for name in spans}, line)
        if matches:
            others = tuple(other[0] for other in NUMBERS.finditer(line) if not _within(other.span(), places))
            found.append(_Match(line, number, values, (re.sub(r"[\W\d_]+", "", NUMBERS.sub("", line)), others)))
    return found


def _check_places(
    metrics: Mapping, match: re.Match, spans: Mapping[str, tuple[int, int]], names: dict[tuple[int, int], str]
) -> None:
    """Raise CommandError if a group of a match reads a part of a number, or what another one reads.

    spans: of the groups, by name. names: what each place of the line is read as so far; it gets these.
    """
    where = f"the line {shown(match.string)}"
    for name, span in spans.items():
        if (other := names.setdefault(span, name)) != name:
            raise CommandError(
                f"{source_of(metrics)} has {shown(match[name])} as {other} and as {name} in {where}: let each "
                r"pattern match its own place alone (\b is where a word begins, ^ where a line does)"
            )
        if cut := _cut_number(match.string, name, span, [*spans.values()]):
            raise CommandError(
                f"{source_of(metrics)} has {cut} in {where}, of which the pattern reads {shown(match[name])} "
                rf"as {name}: let its group match the whole, such as (?P<{name}>\S+); a number has a point, a "
                "time is in seconds"
            )


def _add_values(metrics: Mapping, values: dict[str, float], texts: Mapping[str, str], line: str) -> None:
    """Add the numbers of a match to those of the matches before it in its line. Raises CommandError if they differ."""
    where = f"the line {shown(line)}"
    for name, value in numbers_of(metrics, texts, where).items():
        if not equal(values.setdefault(name, value), value):
            raise CommandError(
                f"{source_of(metrics)} has {values[name]:g} and {value:g} as {name} in {where}: let the "
                r"pattern match one place (\b is where a word begins, ^ where a line does)"
            )


def _within(span: tuple[int, int], spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in spans)


def _cut_number(line: str, name: str, span: tuple[int, int], spans: Sequence[tuple[int, int]]) -> str | None:
    """Return the number of a line of which a group at span holds only a part; None if there is none.

    spans: of all groups. Where two groups are separated by a comma alone, the comma is no part of a number.
    """
    start, end = span
    if any(other_start == end + 1 or other_end == start - 1 for other_start, other_end in spans):
        return None
    begin = max(start - MOST_CHARACTERS, 0)
    for number in (TIMES if name.endswith("seconds") else NUMBERS).finditer(line, begin, end + MOST_CHARACTERS):
        zeros = re.match(r"(?:0+[^\d.,]+)*", number[0])  # of 00:18 and of 0m 18, the 18 is all
        first = number.start() + (zeros.end() if zeros else 0)
        overlaps = number.start() < end and start < number.end()
        if overlaps and not (start <= first and number.end() <= end):
            return number[0]
    return None
