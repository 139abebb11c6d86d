"""A campaign's GPU runs wait for the check of their framework, and a new check makes no result again."""

import re

import pytest
from harness import copy_with_pretended_gpus, on_pretended_gpus, write_config

pytestmark = pytest.mark.faults  # whole workflows: a minute that make test has not


def test_a_campaigns_checks(tmp_path):
    folder = copy_with_pretended_gpus(tmp_path, ["GPU-a"])

    def call(repeats, frameworks, *options, visible=None):
        """Call the workflow for both devices; (exit status, what it printed)."""
        experiment = {"recipes": ["mnist-mlp-flux"], "devices": ["cpu", "gpu"], "epochs": [2]}
        experiment |= {"repeats": repeats, "frameworks": frameworks}
        write_config(folder, {"experiments": {"checked": experiment}})
        process = on_pretended_gpus(folder, "--cores", "2", "--resources", "gpu=1", *options, visible=visible)
        return process.returncode, process.printed

    # Chainer sees no GPU. Its GPU runs are not started, its CPU runs are.
    status, printed = call(1, ["chainer", "pretended"])
    assert status == 1
    assert "failed: checking that chainer computes on the GPU: chainer sees no GPU" in printed
    first = re.search(r"run \d of 4: ", printed)
    assert printed.index("failed: checking") < first.start(), "before the first run"
    assert sorted(re.findall(r"run \d of 4: (\w+ on \w+)", printed)) == [
        "chainer on cpu", "pretended on cpu", "pretended on gpu",
    ]  # fmt: skip
    assert "Missing: 1 of 4 runs" in printed

    # More repeats: a new check, and no result is made again.
    assert call(1, ["pretended"])[0] == 0
    status, printed = call(2, ["pretended"], "-n", "--workflow-profile", "none")
    counts = dict(re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE))
    assert (counts["check_gpu"], counts["train"]) == ("1", "2")
    assert "trace_training" not in counts
    status, printed = call(2, ["pretended"])
    assert status == 0
    assert "2 of 4 runs to train" in printed
    assert "Nothing to be done" in call(2, ["pretended"])[1]

    # After a check that fails, CPU runs are trained, and the report leaves out the GPU. Its finished runs are kept.
    status, printed = call(3, ["pretended"], visible="9")
    assert status == 1
    assert "failed: checking that pretended computes on the GPU: this run asks for the device gpu" in printed
    assert re.findall(r"run \d of 6: (\w+ on \w+)", printed) == ["pretended on cpu"]
    assert "Missing: 3 of 6 runs" in printed
    status, printed = call(3, ["pretended"])
    assert status == 0
    assert "1 of 6 runs to train" in printed

    # A check is made for the runs of its call, and then gone.
    assert not list((folder / "results").glob("gpu_checks/*/*"))
    assert "Nothing to be done" in call(3, ["pretended"])[1]
    assert "2 of 8 runs to train" in call(4, ["pretended"])[1]
