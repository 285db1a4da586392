"""What was tuned, written for programs that know nothing of us: a Python file, JSON tables, and a tree to read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.records import Case, Choice, Config, Trial
from tilewright.tune.rule import Leaf, Rule, arguments_of, leaves, rule_for
from tilewright.tune.sets import WITHIN, ConfigSet, Measurements, measurements, smallest_set
from tilewright.wording import count

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


@dataclass(frozen=True)
class Tuned:
    """All that is known of an operator on one board: what was measured, the smallest set, the rule, the best by shape."""

    operator: str
    device: str
    triton: str
    found: Measurements
    chosen: ConfigSet
    rule: Rule
    best: Mapping[str, Config]

    @property
    def file_name(self) -> str:
        """Without suffix; a name that Python can import."""
        return re.sub(r"\W+", "_", f"{self.operator}_{self.device}")

    @property
    def summary(self) -> str:
        """How many configurations serve how many shapes, and what that costs."""
        worst = max(leaf.slowdown for leaf in leaves(self.rule)) - 1
        exact = "no fewer would do" if self.chosen.is_smallest else f"at least {self.chosen.at_least} are needed"
        return (
            f"{self.operator} on {self.device}, Triton {self.triton}: {count(len(self.chosen.configs), 'configuration')} "
            f"for {count(len(self.found.cases), 'shape')}, each within {100 * worst:.1f} % of its best measured; {exact}"
        )


def tuned(trials: Sequence[Trial], choices: Sequence[Choice] = (), within: float = WITHIN) -> Tuned:
    """What Trials of one operator on one board come to; a Choice says which of a shape's fastest is its best.

    Raises:
        UsageError: see ``sets.measurements``.
    """
    found = measurements(trials)
    chosen = smallest_set(found, within)
    said = {choice.case.id: choice.config for choice in choices}
    best = {case.id: _best(found, case, said.get(case.id), within) for case in found.cases}
    first = next(trial for trial in trials if trial.status == "timed")
    device = first.device or first.target
    return Tuned(first.operator, device, first.triton or "unknown", found, chosen, rule_for(found, chosen), best)


def _best(found: Measurements, case: Case, said: Config | None, within: float) -> Config:
    """The Choice, where its configuration is among the fastest of what is measured here; else the fastest."""
    if said is not None and found.slowdown(case, said) <= 1 + within:
        return said
    return found.configs[int(found.slowdowns[:, found.cases.index(case)].argmin())]


# ------------------------------------------------------------------------------------------------- the tree


def as_text(known: Tuned) -> str:
    """The rule as an indented tree, one question or configuration a line."""
    return "\n".join([known.summary, *_tree(known.rule, "  ")]) + "\n"


def _tree(rule: Rule, indent: str) -> list[str]:
    if isinstance(rule, Leaf):
        return [
            f"{indent}{rule.config}  ({count(rule.shapes, 'shape')}, at most {100 * (rule.slowdown - 1):.1f} % lost)"
        ]
    asked, opposite = rule.words()
    return [indent + asked, *_tree(rule.yes, indent + "  "), indent + opposite, *_tree(rule.no, indent + "  ")]


# -------------------------------------------------------------------------------------------------- Python


def as_python(known: Tuned) -> str:
    """A module that needs Triton alone: ``CONFIGS``, and ``config_for`` that picks one of them by the sizes."""
    configs = list(known.chosen.configs)
    lines = [
        f'"""{known.summary}.',
        "",
        "Written by tilewright export. In a launcher: kernel[grid](..., **config_for(...).all_kwargs())",
        '"""',
        "",
        "import triton",
        "",
        f"DEVICE = {known.device!r}",
        f"TRITON = {known.triton!r}",
        "CONFIGS = [",
        *(f"    {_config_source(config)}," for config in configs),
        "]",
        "",
        "",
        f"def config_for({_parameters(known.found.cases)}):",
        '    """The configuration for these sizes."""',
        *_branches(known.rule, configs, "    "),
    ]
    return "\n".join(lines) + "\n"


def _config_source(config: Config) -> str:
    """None for an option that the configuration leaves to the launcher; ``all_kwargs`` leaves it out then."""
    own = {name: value for name, value in config.values.items() if name not in _OPTIONS}
    options = {name: config.values.get(name) for name in _OPTIONS}
    words = [f"{name}={value!r}" for name, value in options.items() if value is not None or name != "maxnreg"]
    return f"triton.Config({own!r}, {', '.join(words)})"


def _parameters(cases: Sequence[Case]) -> str:
    """Keyword-only parameters; what was the same in all shapes has that as its default."""
    arguments = [arguments_of(case) for case in cases]
    names = dict.fromkeys(name for given in arguments for name in given)
    values = {name: {repr(given.get(name)) for given in arguments} for name in names}
    fixed = [f"{name}={next(iter(values[name]))}" for name in names if len(values[name]) == 1]
    return ", ".join(["*", *(name for name in names if len(values[name]) > 1), *fixed]) if names else ""


def _branches(rule: Rule, configs: Sequence[Config], indent: str) -> list[str]:
    if isinstance(rule, Leaf):
        return [f"{indent}return CONFIGS[{configs.index(rule.config)}]"]
    yes = _branches(rule.yes, configs, indent + "    ")
    return [f"{indent}if {rule.words()[0]}:", *yes, *_branches(rule.no, configs, indent)]


# ---------------------------------------------------------------------------------------------------- JSON


def as_tables(known: Tuned) -> dict[str, dict[str, Any]]:
    """File names and what is in them, in the form of vLLM's tables of fused experts.

    A file for each combination of all arguments but one, which are in its name with the board; in it the best
    configuration for each value of that one argument (the one with most values), and Triton's version. Whoever reads it
    takes the nearest value.
    """
    arguments = {case.id: arguments_of(case) for case in known.found.cases}
    varied = _most_varied(list(arguments.values()))
    tables: dict[str, dict[str, Any]] = {}
    for case in sorted(known.found.cases, key=lambda c: _order(arguments[c.id].get(varied))):
        given = dict(arguments[case.id])
        key = given.pop(varied, None)
        dtype = given.pop("dtype", None)
        words = [
            known.operator,
            *(f"{n}={v}" for n, v in given.items()),
            f"device_name={known.device.replace(' ', '_')}",
        ]
        name = ",".join(words + ([f"dtype={dtype}"] if dtype else [])) + ".json"
        table = tables.setdefault(name.replace("/", "_"), {"triton_version": known.triton})
        table[str(key)] = dict(known.best[case.id].values)
    return tables


def _most_varied(arguments: Sequence[Mapping[str, Any]]) -> str:
    """The size with most values; of as many the first named."""
    values = Counter[str]()
    for name in dict.fromkeys(n for given in arguments for n in given):
        of_name = [given.get(name) for given in arguments]
        if all(isinstance(value, int) and not isinstance(value, bool) for value in of_name):
            values[name] = len(set(of_name))
    return values.most_common(1)[0][0] if values else ""


def _order(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, int) else (1, str(value))


# --------------------------------------------------------------------------------------------------- files


def write(known: Tuned, out: Path) -> list[Path]:
    """Writes ``out``: a ``.py`` or ``.txt`` file alone, or all of them into a folder of that name.

    Raises:
        OSError: it cannot be written.
    """
    if out.suffix in (".py", ".txt"):
        texts = {out: as_python(known) if out.suffix == ".py" else as_text(known)}
    else:
        texts = {out / f"{known.file_name}.py": as_python(known), out / f"{known.file_name}.txt": as_text(known)}
        texts |= {out / name: json.dumps(table, indent=4) + "\n" for name, table in as_tables(known).items()}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(texts)
