# From records to what people read.


localrules:
    collect_records,


rule collect_records:
    """Check every record and put them into tables."""
    input:
        records=RECORDS,
        certificates=CERTIFICATES,
    output:
        runs="results/tables/runs.parquet",
        curves="results/tables/curves.parquet",
        summary=report("results/tables/summary.csv", category="Tables", labels={"table": "summary"}),
        comparisons=report("results/tables/comparisons.csv", category="Tables", labels={"table": "comparisons"}),
        agreement=report("results/tables/agreement.csv", category="Tables", labels={"table": "agreement"}),
        text="results/tables/summary.txt",
    params:
        plan=PLAN_FILE,
        folder=subpath(output.runs, parent=True),
        code=digest("collect"),
        script=f"{SCRIPTS}/collect.py",
    log:
        "results/logs/collect_records.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    shell:
        "python {params.script:q} --plan {params.plan:q} --runs-folder results/runs"
        " --certificates-folder results/certificates --out-folder {params.folder:q}"
        " 2> >(tee {log:q} >&2)"


# A rule a figure, so that each says what it draws: in a loop all say the same, and `use rule ... with` refuses a docstring
# in Snakemake 9.8, which is allowed here.
PLOTTED = {
    "runs": "results/tables/runs.parquet",
    "curves": "results/tables/curves.parquet",
    "comparisons": "results/tables/comparisons.csv",
}
PLOT = (
    "python {params.script:q} --figure {params.figure} --runs {input.runs:q} --curves {input.curves:q}"
    " --comparisons {input.comparisons:q} --experiment {wildcards.experiment} --recipe {wildcards.recipe}"
    " --dataset {wildcards.dataset} --out {output:q} 2> >(tee {log:q} >&2)"
)


rule plot_curves:
    """Draw loss and accuracy by epoch."""
    input:
        **PLOTTED,
    output:
        **figure_files("curves"),
    params:
        figure="curves",
        code=digest("plot"),
        script=f"{SCRIPTS}/plot.py",
    log:
        "results/logs/plot_curves/{experiment}/{recipe}/{dataset}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    shell:
        PLOT


rule plot_training_time:
    """Draw training time by epoch setting, framework and device."""
    input:
        **PLOTTED,
    output:
        **figure_files("training_time"),
    params:
        figure="training_time",
        code=digest("plot"),
        script=f"{SCRIPTS}/plot.py",
    log:
        "results/logs/plot_training_time/{experiment}/{recipe}/{dataset}.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    shell:
        PLOT


rule report:
    """Write the report: one HTML file that works offline."""
    input:
        runs="results/tables/runs.parquet",
        comparisons="results/tables/comparisons.csv",
        agreement="results/tables/agreement.csv",
        records=RECORDS,
        certificates=CERTIFICATES,
        figures=[
            f"{FIGURE_FILE}{name}.{kind}".format(experiment=experiment, recipe=recipe, dataset=dataset)
            for experiment, recipe, dataset in GROUPS
            for name in FIGURES
            for kind in FIGURE_FORMATS
        ],
        datasets=PRODUCTS,
    output:
        page=report("results/report/index.html", category="Report", labels={"page": "trainmark report"}),
    params:
        plan=PLAN_FILE,
        descriptions=[part["description"] for part in SETTINGS["experiments"].values()],
        recipes=shown_of_recipes(),
        code=digest(*report_code(RECIPES[run.recipe] for run in RUNS)),
        script=f"{SCRIPTS}/report.py",
    log:
        "results/logs/report.log",
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    shell:
        "python {params.script:q} --plan {params.plan:q} --runs {input.runs:q} --comparisons {input.comparisons:q}"
        " --agreement {input.agreement:q} --certificates-folder results/certificates"
        " --figures-folder results/figures --datasets-folder results/datasets"
        " --out {output.page:q} 2> >(tee {log:q} >&2)"
