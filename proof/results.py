"""Where studies leave their figures."""

import json
from pathlib import Path

from tilewright.hardware.probe import environment
from tilewright.records import to_dict

FOLDER = Path(__file__).parent / "results"


def keep(study: str, figures: dict) -> None:
    """Writes a study's figures with the environment they were obtained on."""
    FOLDER.mkdir(exist_ok=True)
    data = {"study": study, "environment": to_dict(environment()), "figures": figures}
    (FOLDER / f"{study}.json").write_text(json.dumps(data, indent=1) + "\n")
