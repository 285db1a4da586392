"""A second rank: tunes a kernel by a benchmark of its own liking, and prints what it launched."""

import sys

import kept
import torch
from triton.runtime.jit import JITFunction

import tilewright as tw


def run(self, *args, grid, warmup, **kwargs):
    run.blocks.append(kwargs["BLOCK"])


run.blocks = []


def launched_by(best, sizes, rank, port):
    """The blocks that this rank launches for sizes, as it takes those of ``best`` for the fastest."""
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", world_size=2, rank=rank)
    JITFunction.run = run
    bench = lambda call, quantiles: (call(), [abs(run.blocks[-1] - best) + 1.0] * 3)[1]
    tuner = tw.autotune(kept.configs(), key=["n"], do_bench=bench, keep=False)(kept.copy_kernel)
    found = []
    for n in sizes:
        tuner[(1,)](torch.zeros(1), torch.zeros(1), n, True)
        found.append(run.blocks[-1])
    torch.distributed.barrier()  # the store lives in rank 0
    torch.distributed.destroy_process_group()
    return found


if __name__ == "__main__":
    print(launched_by(int(sys.argv[1]), [int(n) for n in sys.argv[2].split(",")], 1, int(sys.argv[3])))
