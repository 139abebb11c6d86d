# Fetch, prepare and pack datasets, and compute their mean images.


rule download_dataset:
    """Fetch a dataset's files and check their checksums, on the submitting host: compute nodes often have no network."""
    output:
        sources=f"{DATASET}/sources.json",
    params:
        script=f"{SCRIPTS}/download.py",
    log:
        "results/logs/download_dataset/{dataset}/{key}.log",
    priority: BEFORE_RUNS
    localrule: True
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: RESOURCES.image("data")
    threads: 1
    resources:
        runtime=1440,
    shell:
        "python {params.script:q} --dataset {wildcards.dataset} --out {output.sources:q} --log {log:q}"


rule prepare_dataset:
    """Convert the files of a dataset into memory-mapped arrays or lists of decodable images, with a manifest."""
    input:
        sources=f"{DATASET}/sources.json",
        base=lambda wildcards: final(CAMPAIGN.base(wildcards)),
    output:
        folder=directory(f"{DATASET}/prepared"),
    params:
        script=f"{SCRIPTS}/prepare.py",
    log:
        "results/logs/prepare_dataset/{dataset}/{key}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: RESOURCES.image("data")
    threads: 4
    resources:
        mem_mb=4000,
        runtime=720,
    shell:
        "python {params.script:q} --dataset {wildcards.dataset} --sources {input.sources:q}"
        " --workers {threads} --out-folder {output.folder:q} --log {log:q}"


rule pack_images:
    """Decode and resize image files once, and write them as arrays."""
    input:
        dataset=f"{DATASET}/prepared",
    output:
        train=f"{DATASET}/packed/train.npy",
        test=f"{DATASET}/packed/test.npy",
    params:
        folder=subpath(output.train, parent=True),
        script=f"{SCRIPTS}/pack.py",
    log:
        "results/logs/pack_images/{dataset}/{key}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: RESOURCES.image("data")
    threads: 4
    resources:
        mem_mb=4000,
        runtime=720,
    shell:
        "python {params.script:q} --dataset-folder {input.dataset:q} --workers {threads} --out-folder {params.folder:q}"
        " --log {log:q}"


rule compute_mean_image:
    """Compute the exact mean of the training images, as an array and as a picture."""
    input:
        dataset=f"{DATASET}/prepared",
        packed=lambda wildcards: final(CAMPAIGN.packed_for_mean(wildcards)),
    output:
        mean=f"{DATASET}/mean.npy",
        picture=report(
            f"{DATASET}/mean.png",
            category="Datasets",
            labels={"dataset": "{dataset}", "figure": "mean image"},
        ),
    params:
        packed=lambda wildcards, input: option("--packed", input.packed),
        script=f"{SCRIPTS}/mean_image.py",
    log:
        "results/logs/compute_mean_image/{dataset}/{key}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: RESOURCES.image("data")
    threads: 4
    resources:
        mem_mb=4000,
        runtime=720,
    shell:
        "python {params.script:q} --dataset-folder {input.dataset:q} {params.packed} --workers {threads}"
        " --out {output.mean:q} --picture {output.picture:q} --log {log:q}"
