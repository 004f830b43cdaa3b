"""The judges that a configuration chooses, and all that are installed."""

from __future__ import annotations

from xnmt_bench.errors import XnmtError
from xnmt_bench.judges.judge import Judge
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.registry import instantiate, load_all


def installed_judges() -> list[type[Judge]]:
    """Return every installed judge's class, in reading order."""
    kinds = load_all("judges").values()
    # A package may declare a function that makes a judge, which has no results of its own.
    classes = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Judge)]
    return sorted(classes, key=lambda kind: (kind.place, kind.name))


def configured_judges(rules: RuleSet) -> list[Judge]:
    """Return the judges of `judge=[...]`, in reading order.

    Raises:
        XnmtError: one cannot be imported, refuses an option, is not a Judge, or has another name.
    """
    judges = []
    for name, node in rules.job.settings.judge.items():
        judge = instantiate(f"judge {name!r}", node, rules)
        if not isinstance(judge, Judge):
            raise XnmtError(f"judge {name!r}: {type(judge)} is not a subclass of Judge")
        if judge.name != name:
            # Recipes and rows have its own name, so two of one class would be mixed up.
            raise XnmtError(
                f"judge {name!r}: its class has the name {judge.name!r}; configure it under that "
                "name"
            )
        judges.append(judge)
    return sorted(judges, key=lambda judge: judge.row_order)
