# The parity check: do the trainers of a group train the same network? Only then they are ranked.


rule trace_training:
    """Train the certified steps with one trainer, and write its trace for the parity check."""
    input:
        dataset="results/datasets/{dataset}/prepared",
        mean=CAMPAIGN.mean_image,
        packed=SESSION.packed_images,
        weights=CAMPAIGN.initial_weights,
    output:
        trace=temp(TRACE_FILE),
    params:
        settings=CAMPAIGN.certified_settings,
        mean=lambda wildcards, input: option("--mean", input.mean),
        packed=CAMPAIGN.packed_option,
        most_workers=CAMPAIGN.most_workers,
        recipe=CAMPAIGN.certified_recipe,
        code=CAMPAIGN.training_code,
        script=f"{SCRIPTS}/trace_training.py",
    log:
        f"results/logs/trace_training/{OF_TRAINER}.log",
    priority: BEFORE_RUNS
    conda:
        SESSION.framework_environment
    container:
        SESSION.framework_image
    threads: by_wildcards(SESSION.threads)
    resources:
        mem_mb=SESSION.for_each_worker(8000),
        runtime=240,
        gpu=SESSION.gpus_of_workers,
        tasks=SESSION.tasks,
        mpi=SESSION.launcher,
    shell:
        "python {params.script:q} --launcher={resources.mpi:q} --recipe {wildcards.recipe} --dataset-folder {input.dataset:q}"
        " {params.mean} {params.packed} --trainer {wildcards.trainer} --most-workers {params.most_workers}"
        " --settings {params.settings:q} --threads {threads} --log {log:q} --out {output.trace:q}"


rule certify:
    """Compare the traces of all trainers of a group in pairs, and write the parity certificate."""
    input:
        traces=CAMPAIGN.traces,
        stale=SESSION.remake_if_stale(CAMPAIGN.stale_certificate, f"{products.CERTIFICATES}/{CERTIFICATE_FILE}"),
    output:
        certificate=f"{products.CERTIFICATES}/{CERTIFICATE_FILE}",
    params:
        # Traces are temporary, so everything that makes a trace stale must make the certificate stale.
        settings=CAMPAIGN.certified_settings,
        recipe=CAMPAIGN.certified_recipe,
        code=CAMPAIGN.certificate_code,
        script=f"{SCRIPTS}/certify.py",
    log:
        "results/logs/certify/{experiment}/{recipe}/{dataset}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/report.yaml"
    container:
        lambda wildcards: SESSION.image("report")
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    shell:
        "python {params.script:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
        " --dataset {wildcards.dataset} --traces {input.traces:q} --out {output.certificate:q} 2> {log:q}"
