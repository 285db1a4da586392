"""``tilewright``: the verbs, the global options, and how errors leave."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Any

import typer

import tilewright
from tilewright.cli import bench, common, debug, doctor, export, history, list_, run, store, tune
from tilewright.errors import TilewrightError

# What typer itself raises: click's exceptions, or those of the copy of click that later versions bring.
_CLICK: Any = importlib.import_module(typer.BadParameter.__module__)

app = typer.Typer(
    name="tilewright",
    help="Debug, benchmark and tune Triton kernels against a golden PyTorch reference, on a laptop as on a GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", help="Debug, bench and tune an operator, and write a report.")(run.command)
app.command("debug", help="Find what is wrong with a kernel: cases, findings, the line to change.")(debug.command)
app.command("bench", help="Time an operator against its baselines.")(bench.command)
app.command("tune", help="Say which configurations fit and which are worth trying; on a GPU, choose one.")(tune.command)
app.command("export", help="Write what was tuned as Python, JSON or a decision tree.")(export.command)
app.command("list", help="List the operators of a file, or of the library.")(list_.command)
app.command("history", help="List past runs.")(history.command)
app.add_typer(store.app, name="store", help="Take the runs of several stores into one.")
app.command("doctor", help="Say what this machine can do, and what is missing.")(doctor.command)


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and end.", is_eager=True),
) -> None:
    if version:
        print(f"tilewright {tilewright.__version__}")
        raise typer.Exit


def main() -> None:
    """The console script: errors become one line and an exit code; a traceback only where it was asked for."""
    wants_traceback = "--traceback" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--traceback"]
    try:
        code = app(standalone_mode=False) or 0
    except TilewrightError as error:
        code = _told(str(error), error.exit_code, wants_traceback)
    except _CLICK.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except _CLICK.ClickException as error:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "tilewright"
        code = _told(f"{error.format_message().rstrip('.')}; see {command} --help", error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = common.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (| head); say nothing more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        words = (
            f"{type(error).__name__}: {' '.join(str(error).split())} ({where}); --traceback shows how it came to that"
        )
        code = _told(words, common.INCOMPLETE, wants_traceback)
    if code == common.INTERRUPTED:
        print("interrupted; what was finished is in the store", file=sys.stderr)
    sys.exit(code)


def _told(words: str, code: int, wants_traceback: bool = False) -> int:
    if wants_traceback:
        traceback.print_exc()
    print(f"error: {words}", file=sys.stderr)
    return code
