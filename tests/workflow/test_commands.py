"""Commands in a whole workflow: from a config to the report, beside a recipe."""

import hashlib
import json
import subprocess
import sys
from math import prod

import pandas as pd
import pytest
from command_runs import PATTERN, REPORTS
from harness import REPOSITORY, Workflow, environment, snakemake, write_config

pytestmark = pytest.mark.faults  # whole workflows: minutes that make test has not

PROGRAM = REPORTS + "for number in range(1, int(sys.argv[1]) + 1): report(number, sys.argv[2], seconds=0.1)"


def command(folder, words, **keys):
    file = folder / "program.py"
    file.write_text(PROGRAM)
    files = [{"path": "sub/program.py", "urls": [str(file)], "sha256": hashlib.sha256(PROGRAM.encode()).hexdigest()}]
    return {"command": words, "files": files, "metrics": {"format": "regex", "pattern": PATTERN}} | keys


def config_of(folder, **commands):
    experiment = {
        "recipes": ["mnist-mlp-flux"],
        "frameworks": ["chainer"],
        "devices": ["cpu"],
        "epochs": [2],
        "repeats": 2,
        "commands": {
            "good": command(folder, "python sub/program.py {epochs} 0.5"),
            "diverging": command(folder, "python sub/program.py {epochs} nan"),
            **commands,
        },
    }
    return write_config(folder, {"experiments": {"beside": experiment}})


def verified(results):
    """What verify.py prints."""
    script = REPOSITORY / "workflow" / "scripts" / "verify.py"
    return subprocess.run([sys.executable, script, results], capture_output=True, text=True, env=environment()).stdout


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    process = snakemake(folder, "--cores", "2", "--configfile", config_of(folder))
    assert process.returncode == 0, process.printed[-5000:]
    return Workflow(folder, process)


def test_a_command_is_a_row_of_the_report_and_not_certified(done):
    runs = pd.read_parquet(done.results / "tables" / "runs.parquet")
    assert list(runs["framework"]).count("command") == 4
    good = runs[runs["recipe"] == "good"]
    assert (good["status"] == "ok").all() and (good["test_accuracy"] == 0.9).all()
    # An epoch takes 0.1 s. A busy machine reads one of its two lines late, and the epoch is measured as shorter.
    assert good["steady_epoch_seconds"].between(0.05, 0.5).all()
    assert (runs[runs["recipe"] == "diverging"]["status"] == "diverged").all()
    for record in done.results.glob("runs/beside/good/**/repeat-*/*/record.json"):
        (record.parent / "work" / "record.json").write_text("a file of the command's that is called like ours")
    assert verified(done.results).startswith("no problems in ")
    page = (done.results / "report" / "index.html").read_text()
    assert "good, a command" in page and "Not certified: nothing shows what this command trains." in page
    assert "certificates/beside/good" not in page
    assert '<h3>Beside the recipes of the experiment</h3>\n<div class="wide"' in page


def test_the_ratio_of_epoch_times_has_no_verdict(done):
    ratios = pd.read_csv(done.results / "tables" / "numbers.csv").query("statistic == 'ratio' and recipe == 'good'")
    (row,) = ratios[ratios["metric"] == "steady_epoch_seconds"].to_dict("records")
    assert (row["framework"], row["compared_with"]) == ("command", "chainer on cpu (mnist-mlp-flux on digits)")
    runs = pd.read_parquet(done.results / "tables" / "runs.parquet").set_index(["recipe", "repeat"])
    seconds = runs["steady_epoch_seconds"]
    ratios = [seconds["good", repeat] / seconds["mnist-mlp-flux", repeat] for repeat in (1, 2)]
    if (runs["disturbed"] == "").all():
        assert row["value"] == pytest.approx(prod(ratios) ** 0.5)
        assert row["verdict"] == "not ranked"
    assert row["parity"] == "not certified"
    assert "Ratios of the time of a steady epoch, " in done.process.printed


def test_nothing_is_run_again_and_a_changed_command_alone(done):
    again = snakemake(done.folder, "--cores", "2", "--configfile", config_of(done.folder))
    assert "Nothing to be done" in again.printed
    other = config_of(done.folder, good=command(done.folder, "python sub/program.py {epochs} 0.25"))
    dry = snakemake(done.folder, "-n", "--cores", "2", "--configfile", other).printed
    assert "run_command" in dry and "rule train" not in dry
    assert next(line.split() for line in dry.splitlines() if line.startswith("run_command ")) == ["run_command", "2"]


def test_an_edited_script_without_a_checksum_is_fetched_and_run_again_in_one_call(tmp_path):
    own = command(tmp_path, "python sub/program.py {epochs} 0.5")
    del own["files"][0]["sha256"]
    experiment = {"devices": ["cpu"], "epochs": [2], "repeats": 1, "commands": {"own": own}}
    call = "--cores", "2", "--configfile", write_config(tmp_path, {"experiments": {"alone": experiment}})
    digests = []
    for _ in range(2):
        assert snakemake(tmp_path, *call).returncode == 0
        assert "Nothing to be done" in snakemake(tmp_path, *call).printed
        record = max(tmp_path.glob("results/runs/**/record.json"), key=lambda file: file.stat().st_mtime)
        digests.append(json.loads(record.read_text())["dataset"]["content_sha256"])
        file = tmp_path / "program.py"
        file.write_text(file.read_text() + "# edited\n")
    assert digests[0] != digests[1]


def test_failing_commands_stop_no_other_run_and_a_wrong_file_is_not_run(tmp_path):
    """In an experiment of commands alone: no dataset is prepared, and nothing is certified."""
    good, failing = (command(tmp_path, f"python sub/program.py {{epochs}} {word}") for word in ("0.5", ""))
    wrong = good | {
        "files": [good["files"][0] | {"sha256": "a" * 64, "urls": [*good["files"][0]["urls"], "http://127.0.0.1:9/a"]}]
    }
    experiment = {"devices": ["cpu"], "epochs": [2], "repeats": 1}
    experiment["commands"] = {"good": good, "failing": failing, "wrong": wrong}
    name = write_config(tmp_path, {"experiments": {"alone": experiment}})
    process = snakemake(tmp_path, "--cores", "2", "--configfile", name)
    assert process.returncode == 1 and "Traceback" not in process.printed
    failed = sorted(line for line in process.printed.splitlines() if line.startswith("failed: "))
    assert failed[0].startswith("failed: fetching the files of wrong: ") and f"sha256 {'a' * 64}" in failed[0]
    assert failed[1].startswith(
        "failed: running failing on cpu, 2 epochs, repeat 1: the command ended with exit status 1; its last line: "
        "IndexError: list index out of range; log: "
    )
    assert "1 of 3 runs are done; making the tables and the report of these" in process.printed
    assert "alone: good, a command" in process.printed
    (record,) = tmp_path.glob("results/runs/alone/**/repeat-*/*/record.json")
    assert "/good/" in str(record)
    name = write_config(tmp_path, {"experiments": {"alone": experiment | {"commands": {"good": good}}}})
    process = snakemake(tmp_path, "paper", "--cores", "2", "--configfile", name)
    assert process.returncode == 0 and "For a paper: " not in process.printed
    assert verified(tmp_path / "results").startswith("no problems in ")
    assert not (tmp_path / "results" / "datasets").exists()
