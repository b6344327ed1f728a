"""Where power cannot be cut, the proof of it says so and is not green."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_without_what_it_needs_the_proof_cannot_run_and_falls_short(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.power_cuts", "--quick"],
        env={**os.environ, "PATH": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "cannot run here: " in ended.stderr
    assert '"ok": false' in ended.stdout
    assert ended.stdout.endswith('"short": 1}\n')
