"""Results folders of campaigns that nobody trained: from valid records and certificates to tables, figures and page.

The records of the same campaign are the same each time.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import matplotlib.pyplot as plt
from plot import draw as draw_figures
from records_for_tests import (
    certificate_of,
    changed,
    compiling,
    curve,
    disturbed,
    diverged,
    evaluation_entry,
    held_from,
    out_of_memory,
    place_of,
    record,
    retimed,
    timed_tuning,
    with_peak,
)

from trainmark.config.load import keys_that_decide, load_config
from trainmark.files.seal import sealed
from trainmark.plan.campaign import Campaign
from trainmark.plan.figures import known_figures
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import read_plan, write_plan
from trainmark.plan.run import Run
from trainmark.recipes.command import FRAMEWORK as COMMAND
from trainmark.records.result import command_result, result
from trainmark.records.step_losses import encode_step_losses, step_losses
from trainmark.report.collected import collected, write_tables
from trainmark.report.figures.data import read_data
from trainmark.report.page import render
from trainmark.tables.sections import read_results
from trainmark.trainer import TUNED, Trainer
from trainmark.variant import GROUP, split_name

MANIFEST = {
    "kind": "images", "dataset": "digits", "title": "Handwritten digits", "samples": {"train": 1438, "test": 360},
    "sample_shape": [1, 28, 28], "classes": 10, "content_sha256": "0" * 64,
    "sources": [{"file": None, "from": "scikit-learn"}],
}  # fmt: skip

RECIPE = "mnist-mlp-flux"

BATCHES = [128] * 11 + [30]
"""The samples of each step of an epoch."""


# --- what was measured --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fabricated:
    """A campaign that nobody trained.

    experiments: as in a config.
    seconds: (seconds to the end of the first step, seconds of an epoch) of a run, without noise.
    happened: what happened to a run: "", "diverged", "out of memory", "disturbed" or "missing".
    parities: by experiment, the class of pairs of trainers by their names; all other pairs are `rounding`.
    """

    experiments: Mapping[str, Mapping]
    seconds: Callable[[Run], tuple[float, float]]
    happened: Callable[[Run], str] = lambda run: ""
    parities: Mapping[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)


def _experiment(frameworks, epochs, repeats=8, devices=("cpu",), **keys):
    """An experiment on digits, as in a config."""
    lists = {"recipes": [RECIPE], "frameworks": [*frameworks], "devices": [*devices], "epochs": [*epochs]}
    return {**lists, "repeats": repeats, **keys}


def _of_two(run):
    """The trainer that compiles longer has the faster epochs: it is the faster one from about 10 epochs on."""
    return {"chainer": (0.5, 0.25), "keras-jax": (1.5, 0.15)}[run.trainer.framework]


def _of_twelve(run):
    """At 20 epochs, the fastest trainer is about ten times as fast as chainer on cpu."""
    first, epoch = {"chainer": (0.5, 2.0), "keras-jax": (1.2, 1.4), "keras-tensorflow": (1.0, 1.7), COMMAND: (0, 2.2)}[
        run.trainer.framework
    ]
    on_gpu, is_tuned = run.trainer.device == "gpu", run.trainer.loop == TUNED
    return first * (1.3 if is_tuned else 1) + on_gpu, epoch * (0.1 if on_gpu else 1) * (0.6 if is_tuned else 1)


def _to_one_of_twelve(run):
    """One run diverged, one ran out of memory; so many runs of one trainer were disturbed that it gets no verdict."""
    match run.trainer.name, run.epochs, run.repeat:
        case "chainer tuned on gpu", 5, 4:
            return "diverged"
        case "keras-tensorflow on gpu", 10, 2:
            return "out of memory"
        case ("keras-tensorflow on gpu", 20, 2 | 5 | 7) | ("keras-jax on cpu", 1 | 10, 3) | ("chainer on gpu", 5, 8):
            return "disturbed"
    return ""


def _of_thirty(run):
    """In each experiment, other trainers are faster; in every third, two of them take the same time."""
    noise = Random(f"{run.experiment} {run.trainer}")
    first, epoch = noise.uniform(0.3, 2.0), noise.uniform(0.2, 0.6)
    return (0.5, 0.3) if int(run.experiment[1:]) % 3 == 0 and run.trainer.framework != "keras-jax" else (first, epoch)


def _of_variants(run):
    """An update of momentum takes less time than one of Adam, and one of RMSprop almost as much."""
    share = {"momentum": 0.9, "rmsprop": 0.99}.get(split_name(run.experiment)[1], 1)
    return 0.5, {"chainer": 0.25, "flax": 0.15}[run.trainer.framework] * share


def _to_one_of_thirty(run):
    """One run of each of three experiments was disturbed."""
    is_disturbed = run.experiment in ("e03", "e18", "e25") and run.repeat == 2 and run.epochs == 10
    return "disturbed" if is_disturbed and run.trainer.framework == "chainer" else ""


def _thirty():
    """30 experiments: every other one has three trainers, e13 has one."""
    frameworks = ("chainer", "keras-tensorflow", "keras-jax")
    for number in range(1, 31):
        count = 1 if number == 13 else 2 + number % 2
        yield f"e{number:02}", _experiment(frameworks[:count], (5, 10), 6 + number % 3)


COMMANDS = {
    "perceptron": {
        "command": "python perceptron.py {epochs} {seed} {device_flag}",
        "device_flag": {"cpu": "--cpu", "gpu": "--gpu"},
        "files": [{"path": "perceptron.py", "urls": ["perceptron.py"], "sha256": "a" * 64}],
        "metrics": {"format": "regex", "pattern": r"epoch (?P<epoch>\d+): loss (?P<loss>\S+)"},
    }
}

CAMPAIGNS = {
    "two trainers": Fabricated({"two": _experiment(("chainer", "keras-jax"), (5, 20))}, _of_two),
    "disturbed": Fabricated(
        {"busy": _experiment(("chainer", "keras-jax"), (5, 20), 6)}, _of_two, lambda run: "disturbed"
    ),
    "12 trainers": Fabricated(
        {
            "twelve": _experiment(
                ("chainer", "keras-jax", "keras-tensorflow"), (1, 5, 10, 20), devices=("cpu", "gpu"),
                loops=["stock", "tuned"], target_accuracy=0.95, commands=COMMANDS,
            ),
        },
        _of_twelve,
        _to_one_of_twelve,
        {
            "twelve": {
                ("chainer on cpu", "keras-tensorflow tuned on gpu"): "different",
                ("chainer tuned on cpu", "keras-jax on gpu"): "different",
                ("keras-jax tuned on gpu", "keras-tensorflow tuned on gpu"): "not certified",
            }
        },
    ),
    "30 experiments": Fabricated(
        dict(_thirty()),
        _of_thirty,
        _to_one_of_thirty,
        {"e07": {("chainer on cpu", "keras-tensorflow on cpu"): "not certified"}},
    ),
    "variants": Fabricated(
        {
            "optimizers": _experiment(
                ("chainer", "flax"), (5, 20), target_accuracy=0.93,
                variants={
                    "adam": {}, "again": {}, "momentum": {"optimizer": {"rule": "momentum_sgd", "learning_rate": 0.1}},
                    "rmsprop": {"optimizer": {"rule": "rmsprop"}},
                },
            ),
        },
        _of_variants,
    ),
    "failures": Fabricated(
        {"failures": _experiment(("chainer", "keras-jax"), (5, 20), 6)},
        _of_two,
        lambda run: ("missing", "diverged", "out of memory")[run.repeat % 3],
    ),
}  # fmt: skip


# --- its records --------------------------------------------------------------------------------------------------


def _records(fabricated: Fabricated, campaign: Campaign) -> Iterator[dict]:
    """The records of the runs that are not missing, as if one was trained after the other."""
    random = Random(1)
    for number, run in enumerate(campaign.runs):
        experiment = campaign.config["experiments"][run.experiment]
        of_loop = ["tuned"] if run.trainer.loop == TUNED else []
        changes = {
            "settings": {key: experiment[key] for key in keys_that_decide(["training", "record", *of_loop])},
        }
        made = _made(run, fabricated.happened(run), fabricated.seconds(run), random, experiment, changes)
        yield held_from(made, 1000.0 * number)


def _made(run, happened, seconds, random, experiment, changes):
    """The record of a run. seconds: see `Fabricated`. changes: of every record."""
    keys = {"experiment": run.experiment, "recipe": run.recipe, "dataset": run.dataset, "loop": run.trainer.loop}
    arguments = run.trainer.framework, run.repeat, run.trainer.device, run.epochs
    first, epoch = (part * random.gauss(1, 0.02) * (2 if happened == "disturbed" else 1) for part in seconds)
    if happened == "diverged":
        made = diverged(*arguments, changes=changes, **keys)
        made["curves"][0]["evaluations"]["test"]["accuracy"] = 0.1
        made["curves"][0]["seconds"] = made["phases_seconds"]["warm_up"] = epoch
        made["result"] = result(made["curves"], 0.5, 1438)
        return retimed(made)
    if happened == "out of memory":
        return out_of_memory(*arguments, changes=changes, **keys)
    curves = [_learned(run, number, epoch, random) for number in range(1, run.epochs + 1)]
    changes = changes | {"curves": curves, "result": result(curves, 0.5, 1438)}
    if happened == "disturbed":
        changes |= disturbed(foreign_seconds=1.0)
    if run.trainer.device == "gpu":
        joules = 60 * epoch * run.epochs * random.gauss(1, 0.03)
        changes["energy"] = {"training_joules": joules, "source": "nvml", "reason": None}
    made = record(*arguments, seconds=epoch, changes=changes, **keys)
    if run.trainer.framework == COMMAND:
        return _of_command(made, experiment["commands"][run.recipe])
    made = compiling(made, first - 0.5)
    return with_peak(made, 2e13 if run.trainer.device == "gpu" else 2e11)


def _of_command(made, command):
    """The record of a command, of which nothing but its curves is known, from that of a training."""
    curves = [entry | {"step_losses": None} for entry in made["curves"]]
    training_seconds = sum(entry["seconds"] for entry in curves)
    without_compilation = made["wall_seconds"] - made["phases_seconds"]["compilation"]
    return changed(made, {
        "network": None, "dataset.samples": {}, "inputs.recipe": command, "inputs.dataset": None, "weights": None,
        "curves": curves, "provenance.code.dataset": ...,
        "counted": dict.fromkeys(made["counted"], 0), "result": command_result(curves, training_seconds),
        "phases_seconds.compilation": 0, "wall_seconds": without_compilation,
    })  # fmt: skip


def _learned(run: Run, epoch: int, seconds: float, random: Random) -> dict:
    """An entry of the curves. As in trainings, runs of one repeat start alike, and rounding drives them apart."""
    apart = min(3e-8 * 3 ** (epoch - 1), 3e-3)
    losses = encode_step_losses(
        _loss(epoch - 1 + step / len(BATCHES)) * hardness * (1 + random.gauss(0, apart))
        for step, hardness in enumerate(_hardness(run.repeat, epoch))
    )
    of_repeat = Random(f"{run.repeat} {epoch} test").gauss(1.05, 0.02)
    entry = curve(epoch, _loss(epoch) * of_repeat * (1 + random.gauss(0, apart)), seconds) | {"step_losses": losses}
    mean = sum(size * loss for size, loss in zip(BATCHES, step_losses(entry), strict=True)) / sum(BATCHES)
    accuracy = round(360 * min(0.985 - 0.12 / epoch**0.8 + random.gauss(0, 0.004), 1)) / 360
    entry["evaluations"]["test"]["accuracy"] = accuracy
    return entry | {"batch_loss": mean}


def _loss(epochs: float) -> float:
    """The loss after so many epochs."""
    return 0.08 + 2.2 / (1 + 2 * epochs) ** 1.2


@cache
def _hardness(repeat: int, epoch: int) -> list[float]:
    """Of each batch of an epoch, its loss beside that of a mean batch. It is the same for all trainers."""
    random = Random(f"{repeat} {epoch}")
    return [random.gauss(1, 0.1) for _ in BATCHES]


# --- its results folder -------------------------------------------------------------------------------------------


def write_campaign(name: str, folder: Path, *, drawn: bool = True) -> None:
    """Write the results folder of one of CAMPAIGNS. drawn: whether its figures are drawn, or left empty."""
    write_collected(name, folder)
    draw(folder, processes=2, drawn=drawn)
    report(folder)


def write_collected(name: str, folder: Path) -> None:
    """Write the results folder of one of CAMPAIGNS up to its tables, without figures and page."""
    fabricated = CAMPAIGNS[name]
    campaign = campaign_of(fabricated.experiments)
    failed = {run.id: "its job failed" for run in campaign.runs if fabricated.happened(run) == "missing"}
    campaign = campaign_of(fabricated.experiments, failed)
    records = list(_records(fabricated, campaign))
    write_sources(folder, campaign, records, fabricated.parities)
    _write_evaluations(folder, campaign, records)
    for of, job in campaign.plan["jobs"].items():
        for file in job["files"].get("tuning", ()):
            _write_tuning(folder / file, of, records)
    collect(folder)


def campaign_of(experiments: Mapping[str, Mapping], missing: Mapping[str, str] | None = None) -> Campaign:
    """The campaign of these experiments on a machine with a GPU. missing: why a run has no record, by run id."""
    config, catalogue = load_config([], {"experiments": experiments})
    return Campaign(make_plan(with_devices(config, gpu_found=True), catalogue, missing=missing))


def write_sources(
    folder: Path, campaign: Campaign, records: Iterable[Mapping], parities: Mapping[str, Mapping[tuple[str, str], str]]
) -> None:
    """Write the plan, the records, the certificates and the prepared dataset. parities: see `Fabricated`."""
    places = {}
    for made in records:
        places[made["run"]["id"]] = place_of(made)
        _write(folder / place_of(made), made)
    for name, one in campaign.plan["certificates"].items():
        group, trainers = tuple(name.split("/")), map(Trainer.parse, one["trainers"])
        _write(folder / one["file"], certificate_of(group, [*trainers], parities.get(group[0], {})))
    write_prepared(folder / campaign.plan["datasets"]["digits"]["folder"])
    write_plan(folder / "plan.json", campaign.plan | {"records": places})


def _write(file: Path, content: Mapping) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def write_prepared(folder: Path) -> None:
    """Write what the report needs of a prepared dataset."""
    _write(folder / "prepared" / "manifest.json", sealed(MANIFEST))
    plt.imsave(folder / "mean.png", [[0, 1], [1, 0]])


def _write_evaluations(folder: Path, campaign: Campaign, records: list[dict]) -> None:
    """Write the cross-evaluations: each trainer evaluates the runs of the one before it."""
    evaluator = {record: of for of, one in campaign.plan["evaluations"].items() for record in one["records"]}
    evaluated: dict[str, dict] = {of: {} for of in campaign.plan["evaluations"]}
    for made in records:
        run_id = made["run"]["id"]
        if made["weights"] and (of := evaluator.get(campaign.plan["records"][run_id])):
            evaluated[of][run_id] = evaluation_entry(made, trainer=of.split("/")[-1])
    for of, runs in evaluated.items():
        content = {"trainer": of.split("/")[-1], "runs": runs}
        _write(folder / campaign.plan["evaluations"][of]["file"], sealed(content))


def _write_tuning(path: Path, of: str, records: list[dict]) -> None:
    """Write a timed tuning of three steps, with the settings of the runs that it was for."""
    *group, name = of.split("/")
    trainer = Trainer.parse(name)
    settings = next(made["settings"] for made in records if Trainer.of(made["run"]) == trainer)
    tuning = timed_tuning((0.85, 0.8, 0.9), settings=settings, framework=trainer.framework)
    _write(path, sealed(tuning | dict(zip(GROUP, group, strict=True)) | {"trainer": name}))


def collect(folder: Path) -> None:
    """Make the tables, as the rule collect_records does."""
    plan = read_plan(folder / "plan.json")
    write_tables(*collected(plan, folder), plan, folder / "tables")


def draw(folder: Path, processes: int = 1, *, drawn: bool = True) -> None:
    """Draw all figures, as the rule plot_figures does; so many at a time."""
    for section in read_results(folder).sections:
        figures = folder.joinpath("figures", *section.group)
        if drawn:
            draw_figures(read_data(section, folder), figures, processes)
        else:
            write_empty_figures(figures)


def write_empty_figures(folder: Path) -> None:
    """Write a figure that is empty in place of each."""
    folder.mkdir(parents=True)
    for name in known_figures():
        (folder / f"{name}.svg").write_text('<svg width="252pt" height="10pt"></svg>')


def report(folder: Path) -> Path:
    """Write the page and its summary, as the rule report does; return the page's path."""
    page = folder / "report" / "index.html"
    page.parent.mkdir(exist_ok=True)
    text, summary = render(read_results(folder))
    page.write_text(text)
    (folder / "summary.json").write_text(summary)
    return page
