# One job per run. Training is a shell command and not a `script:`, so that a job, a container and a user at a prompt
# run the same code, and Snakemake's own environment does not leak into that of the framework.


rule check_gpu:
    """Check that a framework computes on the GPU, so that a campaign fails at its start and not after hours."""
    output:
        seen=temp(products.GPU_CHECK_FILE),
    params:
        script=f"{SCRIPTS}/check_gpu.py",
    log:
        "results/logs/check_gpu/{framework}/{device}.log",
    wildcard_constraints:
        device="gpu",
    priority: BEFORE_RUNS + 1
    conda:
        RESOURCES.framework_environment
    container:
        RESOURCES.framework_image
    threads: 2
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=1,
    shell:
        "python {params.script:q} --framework {wildcards.framework} --threads {threads} --log {log:q}"
        " --out {output.seen:q}"


rule time_tuning:
    """Time each step from a framework's stock loop to its tuned loop, and choose the tuned loop's number of threads."""
    input:
        **read("prepared", "mean", "packed", "weights", "gpu_check"),
    output:
        tuning=f"{RESULTS}/{products.TUNING}",
    params:
        job=OF_TRAINER,
        script=f"{SCRIPTS}/time_tuning.py",
    log:
        f"results/logs/time_tuning/{OF_TRAINER}/{{key}}.log",
    priority: BEFORE_RUNS
    conda:
        trained(RESOURCES.framework_environment)
    container:
        RESOURCES.framework_image
    threads: JOB_THREADS
    resources:
        **asked(gpu=gpus),
        mem_mb=8000,
        runtime=240,
    shell:
        "python {params.script:q} --job {params.job:q} --threads {threads} --log {log:q} --out {output.tuning:q}"


rule train:
    """Train one run from a new model, or resume it from its checkpoint, and write its record."""
    input:
        **read("prepared", "mean", "packed", "weights", "tuning", "gpu_check"),
    output:
        record=f"{RESULTS}/{products.RECORD}",
    params:
        run=RUN_FOLDER,
        script=f"{SCRIPTS}/train.py",
    log:
        f"results/logs/train/{RUN_FOLDER}/{{key}}.log",
    wildcard_constraints:
        key=KEY + ATTEMPT,
    priority: CAMPAIGN.turn
    group:
        RESOURCES.group_of_run if RESOURCES.has_site else None
    conda:
        trained(RESOURCES.framework_environment)
    container:
        RESOURCES.framework_image
    threads: JOB_THREADS
    resources:
        **asked(gpu=gpus_of_workers, tasks=tasks, mpi=launcher),
        mem_mb=trained(for_each_worker(4000)),
        runtime=240,
    shell:
        "python {params.script:q} --run {params.run:q} --threads {threads}"
        f"{LAUNCHER}"
        " --log {log:q} --out {output.record:q}"


rule evaluate_weights:
    """Evaluate the weights of another trainer's runs. Pairs whose results differ from the records are not ranked."""
    input:
        **read("prepared", "mean", "packed"),
        records=lambda wildcards: final(CAMPAIGN.evaluated(wildcards)),
    output:
        evaluation=f"{RESULTS}/{products.EVALUATION}",
    params:
        job=OF_TRAINER,
        script=f"{SCRIPTS}/evaluate.py",
    log:
        f"results/logs/evaluate_weights/{OF_TRAINER}/{{key}}.log",
    conda:
        trained(RESOURCES.framework_environment)
    container:
        RESOURCES.framework_image
    threads: 2
    resources:
        **asked(gpu=gpus),
        mem_mb=4000,
        runtime=60,
    shell:
        "python {params.script:q} --job {params.job:q} --threads {threads} --log {log:q} --out {output.evaluation:q}"
