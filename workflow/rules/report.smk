# Tables, figures, the report, and the paper kit.
from trainmark.files.checksums import sha256_of

REFERENCES = sha256_of(os.path.join(SCRIPTS, "../../config/references.yaml"))


rule collect_records:
    """Check all records and collect them into tables."""
    input:
        records=final(CAMPAIGN.records),
        certificates=final(CAMPAIGN.certificates),
        evaluations=final(CAMPAIGN.evaluations),
        tunings=final(CAMPAIGN.tunings),
    output:
        runs="results/tables/runs.parquet",
        curves="results/tables/curves.parquet",
        numbers=report("results/tables/numbers.csv", category="Tables", labels={"table": "all numbers"}),
        parity=report("results/tables/parity.csv", category="Tables", labels={"table": "parity of all pairs"}),
        text="results/tables/summary.txt",
        manifest=f"results/tables/{products.MANIFEST}",
        made=touch(CAMPAIGN.tables_made),
    params:
        folder=subpath(output.runs, parent=True),
        references=REFERENCES,
        script=f"{SCRIPTS}/collect.py",
    log:
        "results/logs/collect_records.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    container:
        lambda wildcards: RESOURCES.image("report")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    shell:
        "python {params.script:q} --out-folder {params.folder:q} 2> {log:q}"


rule plot_figures:
    """Draw all figures of one experiment, recipe and dataset."""
    input:
        made=CAMPAIGN.tables_made,
        runs="results/tables/runs.parquet",
        curves="results/tables/curves.parquet",
        numbers="results/tables/numbers.csv",
        parity="results/tables/parity.csv",
        certificate=lambda wildcards: final(CAMPAIGN.certificate(wildcards)),
    output:
        svg=[
            report(
                f"{RESULTS}/{products.FIGURES}/{name}.svg",
                category="Figures",
                labels={
                    "experiment": "{experiment}",
                    "recipe": "{recipe}",
                    "dataset": "{dataset}",
                    "figure": name,
                    "caption": caption[0],
                },
            )
            for name, caption in known_figures().items()
        ],
        others=[
            f"{RESULTS}/{products.FIGURES}/{name}.{kind}"
            for name in known_figures()
            for kind in FIGURE_FORMATS
            if kind != "svg"
        ],
    params:
        out=lambda wildcards, output: os.path.dirname(output.svg[0]),
        options=CAMPAIGN.figure_options,
        code=digest("plot"),
        references=REFERENCES,
        script=f"{SCRIPTS}/plot.py",
    log:
        "results/logs/plot_figures/{experiment}/{recipe}/{dataset}.log",
    wildcard_constraints:
        dataset=f"[a-z0-9-]+|{command_recipe.DATASET}",
    conda:
        "../../envs/report.yaml"
    container:
        lambda wildcards: RESOURCES.image("report")
    threads: 2
    resources:
        mem_mb=1000,
        runtime=30,
    shell:
        "python {params.script:q} --results-folder results"
        " --experiment {wildcards.experiment} --recipe {wildcards.recipe} --dataset {wildcards.dataset}"
        " --threads {threads} --out-folder {params.out:q} {params.options} 2> {log:q}"


rule report:
    """Write the report: one HTML file that works offline, and its first screen for machines."""
    input:
        made=CAMPAIGN.tables_made,
        runs="results/tables/runs.parquet",
        numbers="results/tables/numbers.csv",
        parity="results/tables/parity.csv",
        certificates=final(CAMPAIGN.certificates),
        figures=CAMPAIGN.figures,
        datasets=final(CAMPAIGN.shown_of_datasets),
    output:
        page=report("results/report/index.html", category="Report", labels={"page": "trainmark report"}),
        summary="results/summary.json",
        made=touch(CAMPAIGN.report_made),
    params:
        reported=CAMPAIGN.reported,
        recipes=CAMPAIGN.described_recipes(),
        code=digest("report"),
        script=f"{SCRIPTS}/report.py",
    log:
        "results/logs/report.log",
    conda:
        "../../envs/report.yaml"
    container:
        lambda wildcards: RESOURCES.image("report")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    shell:
        "python {params.script:q} --out {output.page:q} --summary {output.summary:q} 2> {log:q}"


rule check_claims:
    """End the call with an error if a claim of the config fails, when all else is done."""
    input:
        made=reported([CAMPAIGN.tables_made]),
        numbers=reported(["results/tables/numbers.csv"]),
        parity=reported(["results/tables/parity.csv"]),
        page=reported(["results/report/index.html"]),
    output:
        touch(CHECKED_CLAIMS),
    params:
        code=digest("check_claims"),
        script=f"{SCRIPTS}/check_claims.py",
    log:
        "results/logs/check_claims.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    container:
        lambda wildcards: RESOURCES.image("report")
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    shell:
        "python {params.script:q} 2> {log:q}"


rule paper:
    """Write numbers, tables, figures and references for LaTeX into results/paper. Only on request: snakemake paper ..."""
    input:
        made=reported([CAMPAIGN.tables_made]),
        tables=reported(TABLE_FILES),
        certificates=final(CAMPAIGN.certificates),
        summary=reported(["results/summary.json"]),
    # There is no output, because Snakemake deletes or copies outputs, and in the folder are files of the user's.
    params:
        folder=products.PAPER_FOLDER,
        script=f"{SCRIPTS}/paper.py",
    log:
        "results/logs/paper.log",
    conda:
        "../../envs/report.yaml"
    container:
        lambda wildcards: RESOURCES.image("report")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    shell:
        "python {params.script:q} --out-folder {params.folder:q} 2> {log:q}"
