"""The methods of each section in prose, with its settings filled in. methods.j2 has the sentences."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from trainmark.parity.sentences import EQUAL
from trainmark.report.templates import templates
from trainmark.tables.formatting import DISTURBED_MARK, absent_word, listed
from trainmark.tables.frames import SETTING, groups, rows_of
from trainmark.tables.metrics import ALWAYS, KNOWN, OF_RESULTS
from trainmark.tables.remarks import causes_of
from trainmark.tables.sections import Section


def methods(sections: Sequence[Mapping], datasets: Iterable[Mapping], claims: Iterable[Mapping]) -> list[dict]:
    """(title, text) of the paragraphs: what all sections share, then what each has besides; at the end the claims.

    sections: as `page` has them; datasets: manifests; claims: `Results.claims`.
    """
    samples = {dataset["dataset"]: dataset["samples"] for dataset in datasets}
    of_runs = [one for one in sections if not one["of"].has_variants]
    title = "title" if len(of_runs) == 1 else "name"
    told = [
        (one[title], _sentences(one["of"], one["settings"], samples[one["of"].group[2]]))
        for one in of_runs
        if not one["of"].is_command
    ]
    first = told[0][1] if len(told) > 1 else []
    shared = [sentence for sentence in first if all(sentence in own for _, own in told)]
    told += [(one["name"], _sentences(one["of"])) for one in sections if one["of"].has_variants]
    of_text: dict[str, list[str]] = {" ".join(shared): ["each section"]}
    for name, sentences in told:
        of_text.setdefault(" ".join(one for one in sentences if one not in shared), []).append(name)
    checked = [f'"{one["says"]}" {one["status"]} ({one["sentence"]}).' for one in claims]
    of_text[" ".join(["Claims were checked with these numbers:", *checked] if checked else [])] = ["claims"]
    return [{"title": listed(dict.fromkeys(titles)), "text": text} for text, titles in of_text.items() if text]


def _sentences(section: Section, settings: Mapping | None = None, samples: Mapping | None = None) -> list[str]:
    """What is said of a section's training and runs, if there are settings, and of its certificate and verdicts."""
    runs, ratios = section.runs, section.rows("ratio")
    verdicts: dict[str, Counter] = defaultdict(Counter)
    for metric, verdict in zip(ratios["metric"], ratios["verdict"], strict=True):
        heading = KNOWN[metric].heading.partition(",")[0] + (" time" if KNOWN[metric].compared == ALWAYS else "")
        verdicts[heading][absent_word(verdict)] += 1
    bounded = int((ratios["bounded"] > 0).sum())
    marked = section.numbers[section.numbers["disturbed_times"] & (section.numbers["statistic"] == "median")]
    template = templates().get_template("methods.j2")
    text = template.render(
        runs=runs,
        first=rows_of(runs.head(1))[0],
        settings=settings,
        samples=samples,
        versions=[
            f"{framework} ({' or '.join(sorted(filter(None, group['versions'].unique()))) or 'version unknown'})"
            for (framework,), group in groups(runs, ["framework"])
        ],
        machines=[f"{host} ({model})" for (host, model), _ in groups(runs, ["host", "cpu_model"])],
        causes_of=causes_of,
        bounded=bounded,
        marked=len(marked.drop_duplicates(SETTING)),
        mark=DISTURBED_MARK,
        classes=Counter(EQUAL.get(name, name) for name in section.parity["parity"]),
        verdicts=verdicts,
        of_results=OF_RESULTS in {KNOWN[metric].compared for metric in ratios["metric"]},
    )
    return text.splitlines()
