"""Records made readable: on a terminal, piped, and as one HTML page. Imports neither torch nor Triton."""
