"""The library: operators written in portable ``triton.language``, each with its reference, space and baselines."""
