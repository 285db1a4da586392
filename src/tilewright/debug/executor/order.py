"""What happens before what, between programs of one launch: vector clocks that atomics hand on.

A release publishes, at an address, all that its program did and all that it has learnt of others; who acquires
from that address knows it too. An acquire whose returned value nobody looks at orders nothing, unless the program
has looked at that address before: who does not know what is there cannot rely on it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

EXACT_PROGRAMS = 4096
"""Up to here each program has a clock of each other (64 MiB, which the system gives as far as programs acquire)."""
_SINGLE = 64  # lanes of one program's atomic that are kept apart; those of larger tiles share a clock

Key = tuple[int, int]  # storage, address or -1 for all of it


class Order:
    """The clocks of one launch. Beyond :data:`EXACT_PROGRAMS` any release is taken to reach any later acquire."""

    def __init__(self, programs: int) -> None:
        self._programs = programs
        self._exact = programs <= EXACT_PROGRAMS
        self._clocks: np.ndarray | None = None  # [who, of whom]: the last release of another that a program knows
        self._published: dict[Key, np.ndarray] = {}
        self._seen: set[tuple[Key, int]] = set()  # addresses with programs that looked at what is there
        self._shared: set[int] = set()  # storages whose addresses share one clock
        self._released = np.full(0 if self._exact else programs, -1, dtype=np.int64)
        self._acquired = np.full(0 if self._exact else programs, -1, dtype=np.int64)

    def synchronise(
        self,
        storage: int,
        addresses: Tensor,
        programs: Tensor,
        stamp: int,
        *,
        acquires: bool,
        looks: bool,
        releases: Tensor | bool,
    ) -> None:
        """An atomic of some lanes, in the order they take place; ``releases`` may differ by lane."""
        who, where = programs.numpy(), addresses.numpy()
        frees = np.broadcast_to(releases.numpy() if isinstance(releases, Tensor) else np.asarray(releases), who.shape)
        if not self._exact:
            if acquires:
                self._acquired[who] = stamp
            self._released[who[frees]] = stamp
            return
        if not acquires and not looks and not frees.any():
            return
        if storage not in self._shared and len(who) > _SINGLE and len(who) > _SINGLE * len(np.unique(who)):
            self._share(storage)
        if storage in self._shared:
            everyone, at = np.unique(who, return_index=True)
            everyone = everyone[np.argsort(at)]
            released = np.isin(everyone, who[frees])
            steps = [(program, -1, free) for program, free in zip(everyone.tolist(), released.tolist(), strict=True)]
        else:
            steps = list(zip(who.tolist(), where.tolist(), frees.tolist(), strict=True))
        for program, address, free in steps:
            key = (storage, address)
            if looks:
                self._seen.add((key, program))
            self._step(key, program, stamp, acquires and (looks or (key, program) in self._seen), free)

    def _step(self, key: Key, program: int, stamp: int, acquires: bool, releases: bool) -> None:
        line = self._published.get(key)
        if acquires and line is not None:
            own = self._all_clocks()[program]
            np.maximum(own, line, out=own)
        if releases:
            if line is None:
                line = self._published[key] = np.zeros(self._programs, dtype=np.int32)
            if self._clocks is not None:
                np.maximum(line, self._clocks[program], out=line)
            line[program] = stamp

    def _share(self, storage: int) -> None:
        self._shared.add(storage)
        for key in [key for key in self._published if key[0] == storage]:
            line = self._published.pop(key)
            whole = self._published.setdefault((storage, -1), line)
            np.maximum(whole, line, out=whole)

    def _all_clocks(self) -> np.ndarray:
        if self._clocks is None:
            self._clocks = np.zeros((self._programs, self._programs), dtype=np.int32)
        return self._clocks

    def before(self, other: Tensor, when: Tensor, program: Tensor) -> Tensor:
        """True where what ``other`` did at a time happens before what ``program`` does now."""
        a, b, stamp = other.numpy(), program.numpy(), when.numpy()
        if not self._exact:
            return torch.from_numpy((self._released[a] >= stamp) & (self._acquired[b] > stamp))
        if self._clocks is None:
            return torch.zeros(len(a), dtype=torch.bool)
        return torch.from_numpy(self._clocks[b, a] >= stamp)
