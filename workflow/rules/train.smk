# One job for each run. Training is a command, not a `script:`: one code path for a job, a container and a person,
# and nothing of Snakemake's own environment leaks into the framework's.


rule train:
    """Train one run from a fresh model, or go on from its checkpoint, and write its record."""
    input:
        dataset="results/datasets/{dataset}/prepared",
        mean=CAMPAIGN.of_dataset(products.mean_array),
        stale=made_anew(CAMPAIGN.stale_record, RECORD_FILE),
    output:
        record=RECORD_FILE,
    params:
        settings=CAMPAIGN.settings,
        mean=lambda wildcards, input: option("--mean", input.mean),
        recipe=CAMPAIGN.recipe,
        code=CAMPAIGN.training_code,
        attempt=CAMPAIGN.attempt,
        plan=PLAN_FILE,
        script=f"{SCRIPTS}/train.py",
    log:
        f"results/logs/train/{RUN_FOLDER}.log",
    priority: CAMPAIGN.turn
    conda:
        "../../envs/{framework}.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=240,
        # None leaves the key out: a CPU run asks for no GPU at all, which 0 would not say to every scheduler.
        gpu=lambda wildcards: 1 if wildcards.device == "gpu" else None,
    shell:
        "python {params.script:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
        " --dataset {wildcards.dataset} --dataset-folder {input.dataset:q} {params.mean}"
        " --framework {wildcards.framework} --device {wildcards.device} --epochs {wildcards.epochs}"
        " --repeat {wildcards.repeat} --settings {params.settings:q} --threads {threads} --plan {params.plan:q}"
        " --log {log:q} --out {output.record:q}"


rule evaluate_weights:
    """Evaluate the trained weights of another trainer's runs; pairs whose results differ from the records are not ranked."""
    input:
        records=CAMPAIGN.evaluated,
        dataset="results/datasets/{dataset}/prepared",
        mean=CAMPAIGN.of_dataset(products.mean_array),
    output:
        evaluation=EVALUATION_FILE,
    params:
        settings=CAMPAIGN.certified_settings,
        mean=lambda wildcards, input: option("--mean", input.mean),
        recipe=CAMPAIGN.recipe,
        code=CAMPAIGN.evaluating_code,
        plan=PLAN_FILE,
        script=f"{SCRIPTS}/evaluate.py",
    log:
        "results/logs/evaluate_weights/{experiment}/{recipe}/{dataset}/{framework}/{device}.log",
    conda:
        "../../envs/{framework}.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=lambda wildcards: 1 if wildcards.device == "gpu" else None,
    shell:
        "python {params.script:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
        " --dataset-folder {input.dataset:q} {params.mean} --plan {params.plan:q}"
        " --framework {wildcards.framework} --device {wildcards.device} --records {input.records:q}"
        " --settings {params.settings:q} --threads {threads} --log {log:q} --out {output.evaluation:q}"
