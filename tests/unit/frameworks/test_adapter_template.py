"""The adapter template has all methods of the interface: a new method must be added there too."""

import importlib.util
import inspect

from harness import REPOSITORY

from trainmark.frameworks.adapter import Adapter

SPEC = importlib.util.spec_from_file_location("adapter_template", REPOSITORY / "docs" / "adapter_template.py")
TEMPLATE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TEMPLATE)

GIVEN = {"loop", "check_device", "check_gpu_memory", "check_precision", "is_out_of_memory", "__init__"}
"""Methods that no adapter implements."""


def members_of(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


def test_required_methods_come_first_in_the_order_of_the_contract_and_no_optional_one_is_missing():
    required = [name for name in members_of(Adapter) if name in Adapter.__abstractmethods__]
    members = members_of(TEMPLATE.TemplateAdapter)
    assert members[: len(required)] == required
    assert set(members[len(required) :]) == set(members_of(Adapter)) - {*required} - GIVEN


def test_parameters_are_those_of_the_contract():
    for name in Adapter.__abstractmethods__:
        asked, given = (inspect.signature(getattr(kind, name)) for kind in (Adapter, TEMPLATE.TemplateAdapter))
        assert list(asked.parameters) == list(given.parameters), name


def test_it_can_be_created():
    adapter = TEMPLATE.create("my-framework", 2)
    assert (adapter.framework, adapter.threads) == ("my-framework", 2)
    assert adapter.thread_pools() == []
