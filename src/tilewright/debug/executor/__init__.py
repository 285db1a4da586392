"""The checked executor: all programs of a launch at once, from its frontend TTIR, with every check on."""
