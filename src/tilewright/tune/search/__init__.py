"""Ways through a space of configurations, one algorithm a file, behind one interface (``interface.py``)."""
