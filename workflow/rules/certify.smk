# The parity check: do the trainers of a group train the same network? Only then they are ranked.


rule trace_training:
    """Train the certified steps with one trainer, and write its trace for the parity check."""
    input:
        **read("prepared", "mean", "packed", "weights"),
    output:
        trace=temp(f"{RESULTS}/{products.TRACE}"),
    params:
        job=OF_TRAINER,
        script=f"{SCRIPTS}/trace_training.py",
    log:
        f"results/logs/trace_training/{OF_TRAINER}/{{key}}.log",
    priority: BEFORE_RUNS
    conda:
        trained(RESOURCES.framework_environment)
    container:
        RESOURCES.framework_image
    threads: JOB_THREADS
    resources:
        **asked(gpu=gpus_of_workers, tasks=tasks, mpi=launcher),
        mem_mb=trained(for_each_worker(8000)),
        runtime=240,
    shell:
        "python {params.script:q} --job {params.job:q} --threads {threads}"
        f"{LAUNCHER}"
        " --log {log:q} --out {output.trace:q}"


rule certify:
    """Compare the traces of all trainers of a group in pairs, and write the parity certificate."""
    input:
        traces=CAMPAIGN.traces,
    output:
        certificate=f"{RESULTS}/{products.CERTIFICATE}",
    params:
        script=f"{SCRIPTS}/certify.py",
    log:
        "results/logs/certify/{experiment}/{recipe}/{dataset}/{key}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/report.yaml"
    container:
        lambda wildcards: RESOURCES.image("report")
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    shell:
        "python {params.script:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
        " --dataset {wildcards.dataset} --traces {input.traces:q} --out {output.certificate:q} 2> {log:q}"
