"""The methods of each section in prose, with its settings filled in."""

from collections.abc import Iterable, Mapping

import pandas as pd

from trainmark.recipes.command import DATASET
from trainmark.tables.formatting import counted, listed
from trainmark.tables.tables import GROUP, groups
from trainmark.trainer import STOCK, TUNED

LOOPS = {
    STOCK: "its stock loop, the way in which its own documentation trains",
    TUNED: "its tuned loop, the fastest way that its public interface allows, with the same arithmetic",
}


def methods(runs: pd.DataFrame, sections: Iterable[Mapping], datasets: Iterable[Mapping]) -> list[dict]:
    """(title, text) of each section that trains a recipe, but for those that compare variants.

    sections: from `sections.sections`; datasets: manifests.
    """
    samples = {dataset["dataset"]: dataset["samples"] for dataset in datasets}
    of_runs = [section for section in sections if not section["variants"]]
    return [
        {"title": section["title"], "text": _text(group, section["settings"], samples[values[2]])}
        for section, (values, group) in zip(of_runs, groups(runs, GROUP), strict=True)
        if values[2] != DATASET
    ]


def _text(runs: pd.DataFrame, settings: Mapping, samples: Mapping) -> str:
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
        f"{runs['batch_size'].iloc[0]} samples, in {settings['arithmetic']}. Optimizer: {settings['optimizer']}.",
        f"Each framework trained in {listed(text for loop, text in LOOPS.items() if loop in set(runs['loop']))}.",
        "Each framework drew its own dropout masks." if runs["dropout"].iloc[0] else "",
        f"Each setting was repeated {counted(int(runs['repeat'].nunique()), 'time')} from new initial weights: "
        f"{settings['initial weights']}.",
        f"The runs were trained on {listed(f'{host} ({model})' for host, model in machines)}"
        f"{f' with {listed(gpus)}' if len(gpus) else ''}, each with {listed(threads)}.",
        "Training time is the time of compilation and of all training epochs; it excludes loading and evaluation.",
    ]
    return " ".join(filter(None, sentences))
