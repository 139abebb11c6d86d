# One job per run. Training is a shell command and not a `script:`, so that a job, a container and a user at a prompt
# run the same code, and Snakemake's own environment does not leak into that of the framework.


rule check_gpu:
    """Check that a framework computes on the GPU, so that a campaign fails at its start and not after hours."""
    output:
        seen=products.GPU_CHECK_FILE,
    params:
        script=f"{SCRIPTS}/check_gpu.py",
    log:
        "results/logs/check_gpu/{framework}/{device}.log",
    wildcard_constraints:
        device="gpu",
    priority: BEFORE_RUNS + 1
    conda:
        SESSION.framework_environment
    container:
        SESSION.framework_image
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
        dataset="results/datasets/{dataset}/prepared",
        mean=CAMPAIGN.mean_image,
        packed=SESSION.packed_images,
        weights=CAMPAIGN.initial_weights,
        gpu=lambda wildcards: ancient(products.gpu_check(trainer_of(wildcards))),
        stale=SESSION.remake_if_stale(CAMPAIGN.stale_tuning, TUNING_FILE),
    output:
        tuning=TUNING_FILE,
    params:
        settings=CAMPAIGN.settings,
        mean=lambda wildcards, input: option("--mean", input.mean),
        packed=CAMPAIGN.packed_option,
        recipe=CAMPAIGN.recipe,
        code=CAMPAIGN.training_code,
        plan=PLAN_FILE,
        script=f"{SCRIPTS}/time_tuning.py",
    log:
        f"results/logs/time_tuning/{OF_TRAINER}.log",
    priority: BEFORE_RUNS
    conda:
        SESSION.framework_environment
    container:
        SESSION.framework_image
    threads: by_wildcards(SESSION.threads)
    resources:
        mem_mb=8000,
        runtime=240,
        gpu=SESSION.gpus,
    shell:
        "python {params.script:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
        " --dataset {wildcards.dataset} --dataset-folder {input.dataset:q} {params.mean} {params.packed}"
        " --trainer {wildcards.trainer} --settings {params.settings:q} --plan {params.plan:q} --threads {threads} --log {log:q}"
        " --out {output.tuning:q}"


rule train:
    """Train one run from a new model, or resume it from its checkpoint, and write its record."""
    input:
        unpack(by_wildcards(SESSION.inputs_of_run)),
    output:
        record=RECORD_FILE,
    params:
        run=RUN_OPTIONS,
        options=by_wildcards(CAMPAIGN.training_options),
        depends=by_wildcards(CAMPAIGN.run_depends),
        plan=PLAN_FILE,
        script=f"{SCRIPTS}/train.py",
    log:
        f"results/logs/train/{RUN_FOLDER}.log",
    priority: by_wildcards(CAMPAIGN.turn)
    group:
        by_wildcards(SESSION.group_of_run)
    conda:
        by_wildcards(SESSION.framework_environment)
    container:
        by_wildcards(SESSION.framework_image)
    threads: by_wildcards(SESSION.threads)
    resources:
        mem_mb=SESSION.for_each_worker(4000),
        runtime=240,
        gpu=by_wildcards(SESSION.gpus_of_workers),
        tasks=by_wildcards(SESSION.tasks),
        mpi=by_wildcards(SESSION.launcher),
    shell:
        "python {params.script:q} {params.run} {params.options} --threads {threads} --launcher={resources.mpi:q}"
        " --plan {params.plan:q} --log {log:q} --out {output.record:q}"


rule evaluate_weights:
    """Evaluate the weights of another trainer's runs. Pairs whose results differ from the records are not ranked."""
    input:
        records=CAMPAIGN.evaluated,
        dataset="results/datasets/{dataset}/prepared",
        mean=CAMPAIGN.mean_image,
        packed=SESSION.packed_images,
    output:
        evaluation=EVALUATION_FILE,
    params:
        settings=CAMPAIGN.certified_settings,
        mean=lambda wildcards, input: option("--mean", input.mean),
        packed=CAMPAIGN.packed_option,
        recipe=CAMPAIGN.recipe,
        code=CAMPAIGN.training_code,
        plan=PLAN_FILE,
        script=f"{SCRIPTS}/evaluate.py",
    log:
        f"results/logs/evaluate_weights/{OF_TRAINER}.log",
    conda:
        SESSION.framework_environment
    container:
        SESSION.framework_image
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=SESSION.gpus,
    shell:
        "python {params.script:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
        " --dataset-folder {input.dataset:q} {params.mean} {params.packed}"
        " --plan {params.plan:q} --trainer {wildcards.trainer} --records {input.records:q}"
        " --settings {params.settings:q} --threads {threads} --log {log:q} --out {output.evaluation:q}"
