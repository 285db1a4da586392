"""A finding as a self-contained script: the kernel cut out of its modules, the inputs written out, and what is right."""
