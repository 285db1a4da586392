"""All that can be known of an operator's space without a GPU, in one file that a machine with one measures at once.

A zip archive: ``manifest.json`` says what was asked and what came of it, ``kernels/KEY/`` holds the compiled kernels as
they lie in Triton's cache, where they are put back. They are found there by the same Triton, for the same source only,
which is looked at beforehand.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.errors import UsageError
from tilewright.hardware.target import Target
from tilewright.launch import kept
from tilewright.launch.capture import record
from tilewright.launch.kept import Kept
from tilewright.records import Case, Resources, Trial, from_dict, to_dict
from tilewright.runtime.table import triton_version
from tilewright.spec.operator import Operator
from tilewright.spec.source import source_of

SCHEMA = 1
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Prepared:
    """A configuration that was looked at elsewhere; ``unpack`` puts its kernels where a launch finds them."""

    trial: Trial
    kernels: Sequence[Kept]
    unpack: Callable[[], None]


@dataclass(frozen=True)
class Part:
    """One case on one target: its Trials, best predicted first, and the kernels of those that were compiled."""

    target: Target
    trials: Sequence[Trial]
    kernels: Mapping[str, Sequence[Kept]]  # by configuration key


def write(path: Path, operator: Operator, parts: Sequence[Part]) -> int:
    """Writes a bundle, in place of one that is there; its size in bytes.

    Raises:
        UsageError: the file cannot be written.
    """
    manifest = {
        "schema": SCHEMA,
        "operator": operator.name,
        "source": source_of(operator),
        **_triton(),
        "parts": [{**_part(part), "lines": _lines(operator, part.trials[0].case, part.target)} for part in parts],
    }
    draft = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(_MANIFEST, json.dumps(manifest))
            every = {one.key: one for part in parts for kernels in part.kernels.values() for one in kernels}
            for one in every.values():
                for name, data in kept.contents(one).items():
                    archive.writestr(f"kernels/{one.key}/{name}", data)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return path.stat().st_size


class Bundle:
    """A bundle that was found to hold here.

    Raises:
        UsageError: it is none, or is of another Triton, operator or source.
    """

    def __init__(self, path: Path, operator: Operator) -> None:
        self.path, self._operator = path, operator
        try:
            self._archive = zipfile.ZipFile(path)
            manifest = json.loads(self._archive.read(_MANIFEST))
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise UsageError(f"cannot read the bundle {path}: {error}", _AGAIN) from None
        self._require_to_hold(manifest, operator)
        self._parts: list[dict[str, Any]] = manifest["parts"]

    def _require_to_hold(self, manifest: Mapping[str, Any], operator: Operator) -> None:
        here = _triton()
        words = None
        if manifest.get("schema") != SCHEMA:
            words = f"has schema {manifest.get('schema')}, this tilewright reads {SCHEMA}"
        elif manifest["operator"] != operator.name:
            words = f"is of {manifest['operator']}, not of {operator.name}"
        elif manifest["triton"] != here["triton"]:
            words = f"was made with Triton {manifest['triton']}, here is {here['triton']}"
        elif manifest["build"] != here["build"]:
            words = f"was made with another build of Triton {here['triton']}"
        elif manifest["source"] != source_of(operator):
            words = f"was made of {operator.name} as it was: its launcher, kernels or reference have changed"
        if words is not None:
            raise UsageError(f"the bundle {self.path} {words}", _AGAIN)

    def prepared(self, case: Case, target: Target) -> dict[str, Prepared]:
        """What it holds of a case on a target, by configuration key, best predicted first.

        Raises:
            UsageError: it holds nothing of that, or kernels have moved in their file since.
        """
        of_target = [part for part in self._parts if part["target"] == target.name]
        if not of_target:
            names = ", ".join(dict.fromkeys(part["target"] for part in self._parts))
            words = f"the bundle {self.path} is for {names}, and this GPU is {target.name}"
            raise UsageError(words, f"prepare it with --arch {target.name}")
        for part in of_target:
            if part["case"] == case.id:
                self._require_in_place(part, case, target)
                return {trial.config.key: self._prepared(trial, part) for trial in map(from_dict, part["trials"])}
        raise UsageError(f"the bundle {self.path} does not hold {case.label}", "prepare it with the same shapes")

    def _require_in_place(self, part: Mapping[str, Any], case: Case, target: Target) -> None:
        if part["lines"] != _lines(self._operator, case, target):
            words = f"was made when the kernels of {self._operator.name} stood in other lines, by which Triton looks them up"
            raise UsageError(f"the bundle {self.path} {words}", _AGAIN)

    def _prepared(self, trial: Trial, part: Mapping[str, Any]) -> Prepared:
        kernels = [_kept(one) for one in part["kernels"].get(trial.config.key, ())]
        return Prepared(trial, kernels, partial(self._unpack, kernels))

    def _unpack(self, kernels: Sequence[Kept]) -> None:
        for one in kernels:
            if not kept.is_there(one):
                folder = f"kernels/{one.key}/"
                names = [name for name in self._archive.namelist() if name.startswith(folder)]
                kept.put_back(one, {name.removeprefix(folder): self._archive.read(name) for name in names})


_AGAIN = "make it anew: tilewright tune OP --prepare --arch CHIPS -o PATH"


def _lines(operator: Operator, case: Case, target: Target) -> str:
    """Of Triton's own hashes of the kernels that a call launches: of their text, what they call, and their lines."""
    launches = record(operator, operator.make_inputs(case, drawn=False), target)
    return hashlib.sha256("".join(launch.kernel.cache_key for launch in launches).encode()).hexdigest()[:16]


def _triton() -> dict[str, str]:
    build = hashlib.sha256(kept.triton_key().encode()).hexdigest()[:16]
    return {"triton": triton_version(), "build": build}


def _part(part: Part) -> dict[str, Any]:
    return {
        "case": part.trials[0].case.id,
        "target": part.target.name,
        "trials": [to_dict(trial) for trial in part.trials],
        "kernels": {
            key: [{**vars(one), "resources": vars(one.resources)} for one in kernels]
            for key, kernels in part.kernels.items()
        },
    }


def _kept(data: Mapping[str, Any]) -> Kept:
    return Kept(Resources(**data["resources"]), data["name"], data["key"], data["digest"])
