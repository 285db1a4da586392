"""The mutation study: what the debug stage finds of faults made on purpose."""
