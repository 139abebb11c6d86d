# One job for each run. Training is a command, not a `script:`: one code path for a job, a container and a person,
# and nothing of Snakemake's own environment leaks into the framework's.


rule train:
    """Train one run from a fresh model, or go on from its checkpoint, and write its record."""
    input:
        dataset="results/datasets/{dataset}/prepared",
        mean=of_dataset(dataset_files.mean_array),
    output:
        record=RECORD_FILE,
    params:
        seed=setting("seed"),
        batch_size=setting("batch_size"),
        input=setting("input"),
        mean=mean_option,
        step_losses=setting("step_losses"),
        weights=lambda wildcards: "" if setting("keep_weights")(wildcards) else "--forget-weights",
        memory_limit=lambda wildcards: option("--memory-limit-mib", setting("memory_limit_mib")(wildcards)),
        recipe=recipe_of_run,
        code=code_of_run,
        plan=PLAN_FILE,
        script=f"{SCRIPTS}/train.py",
    log:
        f"results/logs/train/{RUN_FOLDER}.log",
    priority: turn_of_run
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
        " --repeat {wildcards.repeat} --seed {params.seed} --batch-size {params.batch_size} --input {params.input:q}"
        " --step-losses {params.step_losses} {params.memory_limit} {params.weights} --threads {threads} --plan {params.plan:q}"
        " --log {log:q} --out {output.record:q}"
