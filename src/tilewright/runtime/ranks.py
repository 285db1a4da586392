"""One answer on all ranks of a distributed run, with no collective that a rank may not come to.

Ranks write into the key-value store that ``torch.distributed`` was set up with; the first answer to a question stands.
A rank that never asks (another stage of a pipeline) is not waited for.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
from typing import Any

_PREFIX = "tilewright/"


def several() -> bool:
    """Whether this process is one of several ranks."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return False
    return bool(distributed.get_world_size() > 1)


def agree(question: str, answer: str) -> str:
    """The answer that stands: the first that any rank gave; this one where no other was."""
    return str(_store().compare_set(_name(question), "", answer).decode())


def claim(question: str) -> bool:
    """Whether it is this rank's to find the answer."""
    return agree(f"{question} is found by", f"{_rank()}") == f"{_rank()}"


def awaited(question: str, seconds: float) -> str | None:
    """The answer that another rank gives, None where it gives none in time."""
    try:
        _store().wait([_name(question)], datetime.timedelta(seconds=seconds))
    except sys.modules["torch.distributed"].DistStoreError:
        return None
    return str(_store().get(_name(question)).decode())


def _name(question: str) -> str:
    return _PREFIX + hashlib.sha256(question.encode()).hexdigest()


def _rank() -> int:
    return int(sys.modules["torch.distributed"].get_rank())


def _store() -> Any:
    return sys.modules["torch.distributed"].distributed_c10d._get_default_store()
