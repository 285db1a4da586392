"""Which cases are worth running. Deterministic: the same operator gives the same cases.

The path of a plan: ``extents.py`` reads from a kernel's TTIR which arguments its tiles are held against,
``probing.py`` finds out by launches that are recorded and not executed which size moves which argument,
``sizes.py``, ``parameters.py``, ``contents.py`` and ``huge.py`` say what is worth trying of each kind, and
``plan.py`` puts it in order and ends it where the budget ends.
"""
