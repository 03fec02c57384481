"""bash, zsh and fish complete `jupyter ddl` with what `jupyter ddl completion` prints."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.launch.profiles.places import FOLDER

RUN = "2026-11-27T09-00-00-default-a3f1"
SHELLS = ("bash", "zsh", "fish")
LIMIT_S = 60.0
# What bash calls at a Tab, with the variables that it sets.
BASH = """
. ./completion.bash
COMP_LINE=$1; COMP_POINT=${#1}; COMP_TYPE=9; COMP_KEY=9
COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete ${COMP_WORDS[0]}
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = """
source completion.fish
complete -C $argv[1]
"""
# A start file. The second key writes the line as Tab left it.
ZSHRC = """
PS1='ready> '
eval "$(cat completion.zsh)"
write-line() { print -r -- "$BUFFER" >line.part && mv line.part line; }
zle -N write-line
bindkey '^X^W' write-line
"""
TAB, WRITE = "\t", "\x18\x17"


# Each line costs a start of `jupyter` and one of `jupyter-ddl`, which answers it alike for all shells.
OF_EACH = (
    ("jupyter ddl works", "workshop"),
    ("jupyter-ddl run --ov", "--oversubscribe"),
    ("jupyter ddl run -n 2 tr", "train.py"),
)
OF_ONE = (
    ("jupyter ddl completion f", "fish"),
    ("jupyter ddl run --on-stall a", "abort"),
    ("jupyter ddl show 2026", RUN),
    ("jupyter ddl runs --rename 2026", RUN),
    ("jupyter ddl run --profile n", "night"),
)
CASES = [(shell, *case) for shell in SHELLS for case in OF_EACH] + [("bash", *case) for case in OF_ONE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a script, a run, a profile, and the code of each shell."""
    for shell in SHELLS:
        with (tmp_path / f"completion.{shell}").open("w") as file, redirect_stdout(file):
            assert main(["completion", shell]) == 0
    (tmp_path / "train.py").touch()
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    profile = tmp_path / "config" / FOLDER / "site.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text('[night]\nlauncher = "slurm"\n')
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    """Return a shell's variables: its start files, runs and profiles are those of the folder."""
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "ZDOTDIR": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TERM": "dumb",
        paths.RUNS_VARIABLE: str(folder / "runs"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
    }


def offered(shell: str, line: str, folder: Path) -> list[str]:
    """Return the words that bash or fish offers at the end of a line."""
    script = {"bash": (BASH, "bash"), "fish": (FISH,)}[shell]
    done = subprocess.run(
        [shell, "-c", *script, line], env=environment(folder), cwd=folder, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    # fish prints a word, a tab, what the word means.
    return [offer.partition("\t")[0].strip() for offer in done.stdout.splitlines() if offer]


def line_after_tab(line: str, folder: Path) -> str:
    """Return the line that zsh has made of a line by Tab, typed in a terminal of its own."""
    (folder / ".zshrc").write_text(ZSHRC)
    ours, its = pty.openpty()
    process = subprocess.Popen(
        ["zsh", "-d", "-i"],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=folder,
        env=environment(folder),
        start_new_session=True,
    )
    os.close(its)
    try:
        told = b""
        while b"ready> " not in told:
            told += os.read(ours, 4096)
        os.write(ours, f"{line}{TAB}{WRITE}".encode())
        written, end = folder / "line", time.monotonic() + LIMIT_S
        while not written.exists():
            assert time.monotonic() < end, told
            time.sleep(0.02)
        return written.read_text().removesuffix("\n")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def completed(shell: str, line: str, folder: Path) -> str:
    """Return the word that a shell puts at the end of a line, where just one goes there; skip without the shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on PATH")
    if shell == "zsh":
        return line_after_tab(line, folder).split()[-1]
    (word,) = offered(shell, line, folder)
    return word


@pytest.mark.parametrize(("shell", "begun", "word"), CASES)
def test_a_shell_completes_a_subcommand_an_option_a_file_a_run_and_a_profile(
    shell: str, begun: str, word: str, folder: Path
) -> None:
    assert completed(shell, begun, folder) == word


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_offers_all_that_fits(shell: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on PATH")
    assert offered(shell, "jupyter ddl ru", folder) == ["run", "runs"]
    assert sorted(offered(shell, "jupyter ddl run --on-stall ", folder)) == ["abort", "report"]
    (folder / "config" / FOLDER / "site.toml").unlink()
    assert offered(shell, "jupyter ddl run --profile ", folder) == []


@pytest.mark.parametrize(
    ("shell", "lines"),
    [
        ("bash", ["complete -o nospace -o default -o bashdefault -F _python_argcomplete jupyter jupyter-ddl"]),
        ("zsh", ["#compdef jupyter jupyter-ddl", "compdef _python_argcomplete jupyter jupyter-ddl"]),
        ("fish", ["function __fish_jupyter_complete", "function __fish_jupyter-ddl_complete"]),
    ],
)
def test_the_code_of_a_shell_names_both_commands(
    shell: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert set(lines) <= {line.strip() for line in printed.splitlines()}
    # In a file of zsh's fpath it is the first line.
    assert shell == "fish" or printed.startswith("#compdef jupyter jupyter-ddl\n")
    # A start file need not have loaded zsh's completion system, without which there is no compdef.
    assert ("compinit" in printed) == (shell == "zsh")


def test_another_shell_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "tcsh"])
    told = capsys.readouterr().err
    assert all(shell in told for shell in SHELLS)
