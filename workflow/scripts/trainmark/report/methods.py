"""The methods of each section in prose, with its settings filled in."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from trainmark.parity.sentences import EQUAL
from trainmark.recipes.command import DATASET
from trainmark.tables.comparisons import COMPARED, WITH_DROPOUT
from trainmark.tables.formatting import DISTURBED_MARK, counted, listed
from trainmark.tables.mixed_environments import causes_of
from trainmark.tables.tables import GROUP, groups, summary_table
from trainmark.tables.verdicts import absent_word
from trainmark.trainer import STOCK, TUNED

LOOPS = {
    STOCK: "its stock loop, the way in which its own documentation trains",
    TUNED: "its tuned loop, the fastest way that its public interface allows, with the same arithmetic",
}


HOW_COMPARED = (
    "Trainers were compared in pairs of runs of a repeat, by Hodges and Lehmann's estimate of the ratio and Wilcoxon's "
    "signed-rank test with Holm's correction, at 5 %."
)


def methods(
    runs: pd.DataFrame, sections: Iterable[Mapping], datasets: Iterable[Mapping], claims: pd.DataFrame
) -> list[dict]:
    """(title, text) of the paragraphs: what all sections share, then what each has besides; at the end the claims.

    sections: from `sections.sections`; datasets: manifests.
    """
    samples = {dataset["dataset"]: dataset["samples"] for dataset in datasets}
    sections = list(sections)
    of_runs = [section for section in sections if not section["variants"]]
    trained = [
        (_title(section, of_runs), _training(group, section["settings"], samples[values[2]]) + _comparison(section))
        for section, (values, group) in zip(of_runs, groups(runs, GROUP), strict=True)
        if values[2] != DATASET
    ]
    first = trained[0][1] if len(trained) > 1 else []
    shared = [sentence for sentence in first if all(sentence in own for _, own in trained)]
    of_text: dict[str, list[str]] = {" ".join(shared): ["each section"]}
    for title, sentences in trained + [
        (_title(one, sections), _comparison(one)) for one in sections if one["variants"]
    ]:
        text = " ".join(sentence for sentence in sentences if sentence not in shared)
        of_text.setdefault(text, []).append(title)
    checked = [f'"{row["says"]}" {row["status"]} ({row["sentence"]}).' for row in claims.to_dict("records")]
    of_text[" ".join(["Claims were checked with these numbers:", *checked] if checked else [])] = ["claims"]
    return [{"title": listed(dict.fromkeys(titles)), "text": text} for text, titles in of_text.items() if text]


def _title(section: Mapping, sections: Sequence[Mapping]) -> str:
    """The title of a section; of several, with the name of its experiment."""
    title: str = section["title"]
    return title if len(sections) == 1 else f"{section['experiment']}: {title}"


def _comparison(section: Mapping) -> list[str]:
    """What is said of a section's certificate and its verdicts."""
    classes, rows = list(section["parity"]["parity"]), section["comparisons"]["rows"]
    counts = [f"{count} {EQUAL.get(name, name)}" for name, count in Counter(classes).items()]
    certified = (
        f"Parity of {counted(len(classes), 'pair')} of trainers in float64: {listed(counts)}." if classes else ""
    )
    verdicts: dict[str, list[str]] = {}
    for row in rows:
        heading = row["heading"].partition(",")[0] + (" time" if row["metric"] in COMPARED else "")
        verdicts.setdefault(heading, []).append(absent_word(row["verdict"]))
    told = [
        f"Verdicts on {heading}: {listed(f'{count} {word}' for word, count in Counter(words).items())}."
        for heading, words in verdicts.items()
    ]
    equal = "Test loss and accuracy get no verdict: with equal weights and batches they are equal but for rounding."
    lasting = any(row["metric"] in WITH_DROPOUT for row in rows)
    return [
        *filter(None, [certified]),
        *([HOW_COMPARED] if told else []),
        *told,
        *([equal] if told and not lasting else []),
    ]


def _disturbed(runs: pd.DataFrame) -> str:
    disturbed = (runs["disturbed"] != "").sum()
    if not disturbed:
        return ""
    marked = int(summary_table(runs, [])["disturbed_times"].sum())
    but = f", except in {counted(marked, 'setting')} all of whose runs were disturbed, marked {DISTURBED_MARK}"
    return (
        f"{disturbed} of {counted(len(runs), 'run')} {'was' if disturbed == 1 else 'were'} disturbed "
        f"({causes_of(runs)}): their times enter no comparison and no median{but if marked else ''}."
    )


def _training(runs: pd.DataFrame, settings: Mapping, samples: Mapping) -> list[str]:
    """What is said of a section's training and runs."""
    recipe, dataset = runs["recipe"].iloc[0], runs["dataset"].iloc[0]
    epochs = sorted(runs["epochs"].unique())
    versions = [
        f"{framework} ({' or '.join(sorted(filter(None, group['versions'].unique()))) or 'version unknown'})"
        for (framework,), group in groups(runs, ["framework"])
    ]
    machines = dict.fromkeys(zip(runs["host"], runs["cpu_model"], strict=True))
    threads = [counted(int(number), "thread") for number in sorted(runs["threads"].unique())]
    gpus = runs["gpu"].dropna().unique()
    sentences = [
        f"The recipe {recipe} ({runs['parameters'].iloc[0]:,} parameters) was trained on {dataset}, with "
        f"{int(samples['train']):,} training and {int(samples['test']):,} test samples, in {listed(versions)}.",
        f"It was trained for {listed(epochs)} epoch{'s' if epochs != [1] else ''}, in batches of "
        f"{runs['batch_size'].iloc[0]} samples, in {settings['arithmetic']}.",
        f"Optimizer: {settings['optimizer']}.",
        f"Each framework trained in {listed(text for loop, text in LOOPS.items() if loop in set(runs['loop']))}.",
        "Each framework drew its own dropout masks." if runs["dropout"].iloc[0] else "",
        f"Each setting was repeated {counted(int(runs['repeat'].nunique()), 'time')} from new initial weights: "
        f"{settings['initial weights']}.",
        f"The runs were trained on {listed(f'{host} ({model})' for host, model in machines)}"
        f"{f' with {listed(gpus)}' if len(gpus) else ''}, each with {listed(threads)}.",
        "Training time is the time of compilation and of all training epochs; it excludes loading and evaluation.",
        _disturbed(runs),
    ]
    return list(filter(None, sentences))
