# Command recipes: any command of the user's own, run and recorded beside the recipes, but not certified.


rule fetch_command:
    """Fetch the files of a command and check their checksums, on the submitting host."""
    output:
        sources=f"{RESULTS}/{products.COMMAND}/sources.json",
    params:
        command="{experiment}/{recipe}",
        script=f"{SCRIPTS}/download.py",
    log:
        "results/logs/fetch_command/{experiment}/{recipe}/{key}.log",
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
        "python {params.script:q} --command {params.command:q} --out {output.sources:q} --log {log:q}"


rule run_command:
    """Run a command once, read its epochs, and write its record."""
    input:
        sources=lambda wildcards: final(CAMPAIGN.reads("sources", wildcards)),
    output:
        record=f"{RESULTS}/{products.RECORD}",
    params:
        run=RUN_FOLDER,
        image=RESOURCES.command_image,
        script=f"{SCRIPTS}/run_command.py",
    log:
        f"results/logs/run_command/{RUN_FOLDER}/{{key}}.log",
    wildcard_constraints:
        trainer=f"{command_recipe.FRAMEWORK}-(cpu|gpu)",
        dataset=command_recipe.DATASET,
        key=KEY + ATTEMPT,
    priority: CAMPAIGN.turn
    # Snakemake's own Python runs the script, because the environment of a command need not have the script's packages.
    # There is no `container`, because the script starts it.
    conda:
        RESOURCES.command_environment
    threads: RESOURCES.threads
    resources:
        mem_mb=4000,
        runtime=240,
        gpu=gpus,
    shell:
        '"$TRAINMARK_PYTHON" {params.script:q} --run {params.run:q} {params.image}'
        " --threads {threads} --log {log:q} --out {output.record:q}"
