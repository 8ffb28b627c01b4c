# SPDX-License-Identifier: Apache-2.0
"""bash's completion of a program's words, as a user at a prompt gets it."""

import subprocess

from settings import SLOW, TOP

# What bash-completion would bring, in its place; then the words, the last of which is being typed.
SCRIPT = """
    _init_completion() { words=("${typed[@]}"); cword=$((${#typed[@]} - 1)); cur=${typed[-1]}; prev=${typed[-2]}; }
    _filedir() { COMPREPLY+=("<file>"); }
    compopt() { :; }
    source "$1" || exit
    typed=("${@:2}")
    "_${2//-/_}"
    printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(program, *words):
    """What is offered, in its order; "<file>" for names of files."""
    path = TOP / "packaging/completions/bash" / program
    run = subprocess.run(["bash", "-c", SCRIPT, "bash", path, program, *words], capture_output=True, text=True,
                         stdin=subprocess.DEVNULL, timeout=60 * SLOW)
    if run.returncode or run.stderr:
        raise AssertionError(f"{path}: exit code {run.returncode}: {run.stderr}")
    return run.stdout.split()
