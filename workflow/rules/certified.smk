# What is certified: the trainers of each group, and what the rules of certify.smk look up of them.
CERTIFIED = certified_groups(RUNS)
TRACE_FILE = "results/traces/{experiment}/{recipe}/{dataset}/{framework}/{device}.npz"
CERTIFICATES = [
    f"results/certificates/{CERTIFICATE_FILE}".format(experiment=experiment, recipe=recipe, dataset=dataset)
    for experiment, recipe, dataset in CERTIFIED
]


def certified_recipe(wildcards):
    """What the recipe decides of a certificate, and how large its images are."""
    recipe = RECIPES[wildcards.recipe]
    return json.dumps(recipe_values(recipe) | {"certified_side": recipe.certified_side}, sort_keys=True)


def code_of_trace(wildcards):
    """Digest of the code that traces a trainer."""
    return digest(*tracing_code(RECIPES[wildcards.recipe], wildcards.framework))


def code_of_certificate(wildcards):
    """Digests of the code that compares the traces of a group, and that takes them."""
    recipe = RECIPES[wildcards.recipe]
    frameworks = sorted({framework for framework, _ in trainers_of_group(wildcards)})
    return [digest("certify"), *(digest(*tracing_code(recipe, framework)) for framework in frameworks)]


def trainers_of_group(wildcards):
    """(framework, device) of each trainer of a certificate, in the order of the config."""
    return CERTIFIED[wildcards.experiment, wildcards.recipe, wildcards.dataset]


def traces_of_group(wildcards):
    """The traces of all trainers of a certificate."""
    names = [dict(zip(("framework", "device"), trainer)) for trainer in trainers_of_group(wildcards)]
    return [TRACE_FILE.format(**dict(wildcards.items()), **name) for name in names]
