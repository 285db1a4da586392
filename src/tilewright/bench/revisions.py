"""Commits of the repository that an operator's file lies in."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tilewright.errors import UsageError

CHANGED = "+changes"
"""Stands behind a commit where files differ from it."""


def of(file: Path | None) -> str | None:
    """The commit that a file's repository is at, marked where tracked files differ from it; None outside of one."""
    if file is None:
        return None
    commit = _git(file.parent, "rev-parse", "--short=12", "HEAD")
    if not commit or _git(file.parent, "ls-files", "--error-unmatch", str(file)) is None:
        return None  # a file that merely lies in a repository is no part of its commits
    return commit + (CHANGED if _git(file.parent, "status", "--porcelain", "-uno") else "")


def find(file: Path | None, name: str) -> str | None:
    """The commit of that name (a branch, a tag, digits) in a file's repository, as :func:`of` writes it."""
    return _git(file.parent, "rev-parse", "--short=12", "--verify", "--quiet", f"{name}^{{commit}}") if file else None


@contextlib.contextmanager
def files_at(file: Path, commit: str) -> Iterator[tuple[Path, Path]]:
    """The repository's files at a commit, in a folder that is gone afterwards: its root then, and its root here.

    Raises:
        UsageError: the file was not there at that commit.
    """
    root = Path(_git(file.parent, "rev-parse", "--show-toplevel") or file.parent)
    packed = subprocess.run(["git", "-C", root, "archive", commit], capture_output=True, check=False)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        if packed.returncode == 0:
            with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
                archive.extractall(folder, filter="data")
        if not (Path(folder) / file.relative_to(root)).is_file():
            raise UsageError(f"{file.name} is not in commit {commit}")
        yield Path(folder), root


def _git(folder: Path, *words: str) -> str | None:
    """What git says, or None where it fails or is not there."""
    try:
        ended = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None
