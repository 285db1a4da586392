"""What is mutated: the library's operators, the mended fixtures, right kernels in public styles.

A subject is one operator and the files its code stands in. A study works on copies of them, in a package of their own
for each mutant: nothing of the project is touched, and a mutant can be read where it lies.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mutation.source import Source, parsed

PROJECT = Path(__file__).parent.parent.parent
OWN = Path(__file__).parent / "kernels"
LIBRARY = PROJECT / "src" / "tilewright" / "kernels"
TESTED = PROJECT / "tests" / "cpu" / "executor" / "kernels"
FIXTURES = PROJECT / "tests" / "cpu" / "cases"

OF_FIXTURE = '''\
"""The mended side of a fixture."""

import tilewright as tw
from .fixture import fixed_run, inputs, reference

{name} = tw.Operator(name="{name}", run=fixed_run, reference=reference, inputs=inputs)
'''


@dataclass(frozen=True)
class Subject:
    """An operator, by name, and its ``files``: module name to text. Its declaration stands in ``operator``."""

    name: str
    files: Mapping[str, str]
    is_library: bool = False

    def functions(self) -> Iterator[tuple[str, str]]:
        """Module and name of each function that a call of the operator reaches, kernels and host code."""
        sources = {module: parsed(text) for module, text in self.files.items()}
        waiting, seen = [("operator", self._launcher(sources["operator"]))], set()
        while waiting:
            module, name = waiting.pop(0)
            source = sources[module]
            if (module, name) in seen:
                continue
            if name not in source.functions:
                waiting += [
                    (other, name) for other in self.files if other != module and name in sources[other].functions
                ]
                continue
            seen.add((module, name))
            yield module, name
            body = source.functions[name].body
            waiting += [(module, n.id) for s in body for n in ast.walk(s) if isinstance(n, ast.Name)]

    def _launcher(self, source: Source) -> str:
        """The function behind the operator: the decorated one, or what ``run=`` names."""
        if self.name in source.functions:
            return self.name
        made = next(s for s in source.tree.body if isinstance(s, ast.Assign) and s.targets[0].id == self.name)
        return next(k.value.id for k in made.value.keywords if k.arg == "run")


def subjects() -> list[Subject]:
    return [*_library(), *_fixtures(), *_own()]


def _library() -> Iterator[Subject]:
    for folder in sorted(p.parent for p in LIBRARY.glob("*/operator.py")):
        operator = (folder / "operator.py").read_text()
        operator = operator.replace(f"from tilewright.kernels.{folder.name}.kernel import", "from .kernel import")
        yield Subject(
            folder.name, {"kernel": (folder / "kernel.py").read_text(), "operator": operator}, is_library=True
        )


def _fixtures() -> Iterator[Subject]:
    for path in sorted(FIXTURES.glob("*.py")):
        name = f"case_{path.stem}"
        yield Subject(name, {"fixture": path.read_text(), "operator": OF_FIXTURE.format(name=name)})


def _own() -> Iterator[Subject]:
    for path in sorted(OWN.glob("*.py")):
        text, files = path.read_text(), {}
        for tested in sorted(TESTED.glob("*.py")):
            imported = f"from {tested.stem} import"
            if imported in text:
                text = text.replace(imported, f"from .{tested.stem} import")
                files[tested.stem] = tested.read_text()
        names = re.findall(r"@tw\.operator\(.*?^def (\w+)\(", text, re.S | re.M)
        names += re.findall(r"^(\w+) = tw\.Operator\(", text, re.M)
        for name in names:
            yield Subject(name, {**files, "operator": text})
