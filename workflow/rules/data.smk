# Fetch, prepare and pack datasets, and compute their mean images.
from trainmark.datasets.catalogue import own_files


rule download_dataset:
    """Fetch a dataset's files and check their checksums, on the submitting host: compute nodes often have no network."""
    output:
        sources="results/datasets/{dataset}/sources.json",
    params:
        entry=CAMPAIGN.of_dataset(products.entry_to_fetch),
        folder=subpath(output.sources, parent=True),
        script=f"{SCRIPTS}/download.py",
    log:
        "results/logs/download_dataset/{dataset}.log",
    priority: BEFORE_RUNS
    localrule: True
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: SESSION.image("data")
    threads: 1
    resources:
        runtime=1440,
    shell:
        "python {params.script:q} --dataset {wildcards.dataset} --entry {params.entry:q}"
        " --raw-folder {params.folder:q}/raw --out {output.sources:q} --log {log:q}"


rule prepare_dataset:
    """Convert the files of a dataset into memory-mapped arrays or lists of decodable images, with a manifest."""
    input:
        sources="results/datasets/{dataset}/sources.json",
        base=CAMPAIGN.of_dataset(products.base_folder),
        own=CAMPAIGN.of_dataset(own_files),
    output:
        folder=directory("results/datasets/{dataset}/prepared"),
    params:
        entry=CAMPAIGN.of_dataset(products.entry_to_prepare),
        folder=subpath(input.sources, parent=True),
        base=lambda wildcards, input: option("--base-folder", input.base),
        code=CAMPAIGN.preparing_code,
        script=f"{SCRIPTS}/prepare.py",
    log:
        "results/logs/prepare_dataset/{dataset}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: SESSION.image("data")
    threads: 4
    resources:
        mem_mb=4000,
        runtime=720,
    shell:
        "python {params.script:q} --dataset {wildcards.dataset} --entry {params.entry:q} --sources {input.sources:q}"
        " --raw-folder {params.folder:q}/raw --unpacked-folder {params.folder:q}/unpacked {params.base}"
        " --workers {threads} --out-folder {output.folder:q} --log {log:q}"


rule pack_images:
    """Decode and resize image files once, and write them as arrays."""
    input:
        dataset="results/datasets/{dataset}/prepared",
    output:
        train="results/datasets/{dataset}/packed/train.npy",
        test="results/datasets/{dataset}/packed/test.npy",
    params:
        folder=subpath(output.train, parent=True),
        code=digest("pack"),
        script=f"{SCRIPTS}/pack.py",
    log:
        "results/logs/pack_images/{dataset}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: SESSION.image("data")
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
        dataset="results/datasets/{dataset}/prepared",
        packed=CAMPAIGN.of_dataset(products.packed_training_images),
    output:
        mean="results/datasets/{dataset}/mean.npy",
        picture=report(
            "results/datasets/{dataset}/mean.png",
            category="Datasets",
            labels={"dataset": "{dataset}", "figure": "mean image"},
        ),
    params:
        packed=lambda wildcards, input: option("--packed", input.packed),
        code=digest("mean_image"),
        script=f"{SCRIPTS}/mean_image.py",
    log:
        "results/logs/compute_mean_image/{dataset}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/data.yaml"
    container:
        lambda wildcards: SESSION.image("data")
    threads: 4
    resources:
        mem_mb=4000,
        runtime=720,
    shell:
        "python {params.script:q} --dataset-folder {input.dataset:q} {params.packed} --workers {threads}"
        " --out {output.mean:q} --picture {output.picture:q} --log {log:q}"
