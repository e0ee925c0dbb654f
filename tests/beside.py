"""Run tests beside each other, and what failed there once more alone: `python -m tests.beside FOLDERS…`.

Four processes share the CPUs, so a test's patience can end without a fault of the lab or of the test. A test that
fails alone too is red. One that passes alone is named at the end; its first failure stays in the output.
"""

import subprocess
import sys

# Tests that mostly wait run in parallel, those of one file or one lab in one process.
BESIDE = ("-m", "not alone", "-n", "4", "--dist", "loadscope", "--no-loadscope-reorder")
# Three tests that fail alone are no accident: the rest would only take time.
ALONE = ("-m", "not alone", "--last-failed", "--last-failed-no-failures", "none", "--maxfail", "3", "-rpfE")
SOME_FAILED = 1


def main(arguments: list[str]) -> int:
    """Return pytest's exit status: 0 if each test passed, beside the others or then alone."""
    status = _pytest(*arguments, *BESIDE)
    if status != SOME_FAILED:
        return status
    print("\nWhat failed beside other tests runs once more, alone:", flush=True)
    status = _pytest(*arguments, *ALONE)
    if not status:
        print("Each of them passed alone. The summary above names them; their first failures stand before it.")
    return status


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
