# From the catalogue to arrays and their mean image.


localrules:
    download_dataset,


rule download_dataset:
    """Fetch a dataset's files by address and SHA-256, on the submitting host: compute nodes often have no network."""
    input:
        catalogue=ancient(CATALOGUE_FILE),
    output:
        sources="results/datasets/{dataset}/sources.json",
    params:
        entry=lambda wildcards: json.dumps(CATALOGUE[wildcards.dataset], sort_keys=True),
        raw=subpath(output.sources, parent=True),
        script=f"{SCRIPTS}/download.py",
    log:
        "results/logs/download_dataset/{dataset}.log",
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        runtime=60,
    shell:
        "python {params.script:q} --dataset {wildcards.dataset} --catalogue {input.catalogue:q}"
        " --raw-folder {params.raw:q}/raw --out {output.sources:q} --log {log:q}"


rule prepare_dataset:
    """Turn a dataset's files into memory-mappable arrays with a manifest."""
    input:
        catalogue=ancient(CATALOGUE_FILE),
        sources="results/datasets/{dataset}/sources.json",
    output:
        manifest="results/datasets/{dataset}/prepared/manifest.json",
        train_images="results/datasets/{dataset}/prepared/train_images.npy",
        train_labels="results/datasets/{dataset}/prepared/train_labels.npy",
        test_images="results/datasets/{dataset}/prepared/test_images.npy",
        test_labels="results/datasets/{dataset}/prepared/test_labels.npy",
    params:
        entry=lambda wildcards: json.dumps(CATALOGUE[wildcards.dataset], sort_keys=True),
        raw=subpath(input.sources, parent=True),
        folder=subpath(output.manifest, parent=True),
        script=f"{SCRIPTS}/prepare.py",
    log:
        "results/logs/prepare_dataset/{dataset}.log",
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    shell:
        "python {params.script:q} --dataset {wildcards.dataset} --catalogue {input.catalogue:q}"
        " --sources {input.sources:q} --raw-folder {params.raw:q}/raw --out-folder {params.folder:q} 2> >(tee {log:q} >&2)"


rule compute_mean_image:
    """Compute the exact mean of the training images, as an array and as a picture."""
    input:
        train_images="results/datasets/{dataset}/prepared/train_images.npy",
        manifest="results/datasets/{dataset}/prepared/manifest.json",
    output:
        mean="results/datasets/{dataset}/mean.npy",
        picture=report(
            "results/datasets/{dataset}/mean.png",
            category="Datasets",
            labels={"dataset": "{dataset}", "figure": "mean image"},
        ),
    params:
        folder=subpath(input.manifest, parent=True),
        script=f"{SCRIPTS}/mean_image.py",
    log:
        "results/logs/compute_mean_image/{dataset}.log",
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    shell:
        "python {params.script:q} --dataset-folder {params.folder:q} --out {output.mean:q}"
        " --picture {output.picture:q} --log {log:q}"
