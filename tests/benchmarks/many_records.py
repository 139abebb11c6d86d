"""How long does the look at every record take that a call of snakemake begins with? `make bench-records` prints it.

The records are of 20 epochs, on a disk whose files are in memory already.
"""

import json
import os
import tempfile
import time
from pathlib import Path

from harness import Wildcards
from records_for_tests import record

from trainmark.config.load import load_config
from trainmark.plan.campaign import Campaign
from trainmark.plan.matrix import with_devices

RECORDS = 1000
EXPERIMENT = {
    "recipes": ["mnist-mlp-flux"],
    "frameworks": ["chainer", "keras-jax"],
    "devices": ["cpu"],
    "epochs": [20],
    "repeats": RECORDS // 2,
}


def main() -> None:
    """Write a campaign of records; look at each as the workflow does; print the seconds."""
    config, catalogue = load_config([], {"experiments": {"many": EXPERIMENT}})
    campaign = Campaign(with_devices(config, gpu_found=False), catalogue)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for run, file in zip(campaign.runs, campaign.records, strict=True):
            path = Path(file)
            path.parent.mkdir(parents=True)
            path.write_text(
                json.dumps(record(run.trainer.framework, run.repeat, epochs=run.epochs, experiment="many"), indent=1)
            )
        size_mib = sum(Path(file).stat().st_size for file in campaign.records) / 2**20
        manifest = Path("results/tables/manifest.json")
        manifest.parent.mkdir()
        manifest.write_text(json.dumps({"order": [], "made_of": {}, "tables": {}}))
        campaign.stale_record(Wildcards(vars(campaign.runs[0])), with_code=True)  # digests of code are made once
        begin = time.monotonic()
        for run in campaign.runs:
            campaign.stale_record(Wildcards(vars(run)), with_code=True)
        campaign.stale_tables(Wildcards(), with_code=True)
        seconds = time.monotonic() - begin
    print(f"{len(campaign.runs)} records, {size_mib:.1f} MiB: {seconds:.2f} s")


if __name__ == "__main__":
    main()
