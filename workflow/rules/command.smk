# Command recipes: any command of the user's own, run and recorded beside the recipes, but not certified.


rule fetch_command:
    """Fetch the files of a command and check their checksums, on the submitting host."""
    output:
        sources=f"{products.COMMAND_FOLDER}/sources.json",
    params:
        entry=CAMPAIGN.fetched,
        folder=subpath(output.sources, parent=True),
        script=f"{SCRIPTS}/download.py",
    log:
        "results/logs/fetch_command/{experiment}/{recipe}.log",
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
        "python {params.script:q} --dataset {wildcards.recipe} --entry {params.entry:q}"
        " --raw-folder {params.folder:q}/files --out {output.sources:q} --log {log:q}"


rule run_command:
    """Run a command once, read its epochs, and write its record."""
    input:
        unpack(by_wildcards(SESSION.inputs_of_command)),
    output:
        record=RECORD_FILE,
    params:
        run=RUN_OPTIONS,
        command=CAMPAIGN.recipe,
        settings=CAMPAIGN.settings,
        files=subpath(input.sources, parent=True),
        image=SESSION.command_image,
        code=CAMPAIGN.training_code,
        plan=PLAN_FILE,
        script=f"{SCRIPTS}/run_command.py",
    log:
        f"results/logs/run_command/{RUN_FOLDER}.log",
    wildcard_constraints:
        trainer=f"{command_recipe.FRAMEWORK}-(cpu|gpu)",
        dataset=command_recipe.DATASET,
    priority: CAMPAIGN.turn
    # Snakemake's own Python runs the script, because the environment of a command need not have the script's packages.
    # There is no `container`, because the script starts it.
    conda:
        SESSION.command_environment
    threads: by_wildcards(SESSION.threads)
    resources:
        mem_mb=4000,
        runtime=240,
        gpu=SESSION.gpus,
    shell:
        '"$TRAINMARK_PYTHON" {params.script:q} {params.run}'
        " --command {params.command:q} --files-folder {params.files:q}/files {params.image}"
        " --settings {params.settings:q} --threads {threads} --plan {params.plan:q} --log {log:q} --out {output.record:q}"
