import json
import pathlib
import subprocess
import sys

cases = json.loads(pathlib.Path(sys.argv[1]).read_text())
program = pathlib.Path("/app/slug.py")


def slug(title: str) -> str | None:
    # A process of its own: what is graded is not to run inside what grades.
    ran = subprocess.run(
        [sys.executable, "-I", program, title],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return ran.stdout.strip() if ran.returncode == 0 else None


right = sum(slug(title) == wanted for title, wanted in cases.items()) / len(cases)
short = program.exists() and len(program.read_text().splitlines()) <= 20
rewards = {"reward": right, "cases_right": right, "short": float(short)}
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
