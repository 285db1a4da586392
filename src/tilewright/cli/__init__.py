"""The command line: one file per verb. It renders what stages yield, and turns reports into exit codes."""
