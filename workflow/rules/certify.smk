# Before anything is ranked: do the trainers of a group train the same network?


rule trace_training:
    """Take the certified steps with one framework on one device, and keep what it showed of them."""
    input:
        dataset="results/datasets/{dataset}/prepared",
        mean=of_dataset(dataset_files.mean_array),
    output:
        trace=temp(TRACE_FILE),
    params:
        seed=setting("seed"),
        batch_size=setting("batch_size"),
        input=setting("input"),
        mean=mean_option,
        recipe=certified_recipe,
        code=code_of_trace,
        script=f"{SCRIPTS}/trace_training.py",
    log:
        "results/logs/trace_training/{experiment}/{recipe}/{dataset}/{framework}/{device}.log",
    priority: DATA_FIRST
    conda:
        "../../envs/{framework}.yaml"
    threads: 2
    resources:
        mem_mb=8000,
        runtime=240,
        gpu=lambda wildcards: 1 if wildcards.device == "gpu" else None,
    shell:
        "python {params.script:q} --recipe {wildcards.recipe} --dataset-folder {input.dataset:q} {params.mean}"
        " --framework {wildcards.framework} --device {wildcards.device} --seed {params.seed}"
        " --batch-size {params.batch_size} --input {params.input:q} --threads {threads} --log {log:q}"
        " --out {output.trace:q}"


rule certify:
    """Compare the traces of all trainers of a group in pairs: the parity certificate."""
    input:
        traces=traces_of_group,
    output:
        certificate=f"results/certificates/{CERTIFICATE_FILE}",
    params:
        # Traces are gone once they are compared: what makes one stale makes the certificate stale.
        settings=lambda wildcards: [setting(key)(wildcards) for key in ("seed", "batch_size", "input")],
        recipe=certified_recipe,
        code=code_of_certificate,
        script=f"{SCRIPTS}/certify.py",
    log:
        "results/logs/certify/{experiment}/{recipe}/{dataset}.log",
    priority: DATA_FIRST
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=4000,
    shell:
        "python {params.script:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
        " --dataset {wildcards.dataset} --traces {input.traces:q} --out {output.certificate:q} 2> >(tee {log:q} >&2)"
