"""What shells offer behind a tab."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from triune.cli import _parser, main
from triune.cli.completion import SHELLS, script


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_text("")
    (tmp_path / "images").mkdir()
    return tmp_path


# What is typed, and what is among the offers, and what is not.
TYPED = [
    ("triune ", {"compile", "predict", "completion", "icraft"}, {"--help", "metis", "model.onnx"}),
    ("triune comp", {"compile", "compare", "compat", "completion"}, {"run"}),
    ("triune --v", {"--version"}, {"--verbose", "compile"}),
    ("triune compile --t", {"--target"}, {"--help", "--top"}),
    ("triune compile --format ", {"package", "icraft"}, {"model.onnx"}),
    ("triune compile --target metis ", {"model.onnx"}, {"metis"}),
    ("triune compat ", {"run"}, {"compile"}),
    ("triune compat run --", {"--force"}, {"--target"}),
    ("triune completion ", {"bash", "zsh", "fish"}, {"model.onnx"}),
    ("triune predict mo", {"model.onnx"}, {"images"}),
    ("triune run compile --de", {"--device"}, {"--target"}),
]


@pytest.mark.parametrize(("typed", "among", "absent"), TYPED)
def test_bash(typed: str, among: set[str], absent: set[str], files: Path) -> None:
    words = typed.split(" ")
    listed = " ".join(f"'{word}'" for word in words)
    asked = f'COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _triune; printf "%s\\n" "${{COMPREPLY[@]}}"'
    program = f"{script(_parser(), 'bash')}\n{asked}"
    done = subprocess.run([shell("bash"), "-euc", program], capture_output=True, text=True, cwd=files, timeout=60)
    offers = set(done.stdout.split())
    assert done.stderr == ""
    assert among <= offers, offers
    assert not absent & offers


@pytest.mark.parametrize(("typed", "among", "absent"), TYPED)
def test_fish(typed: str, among: set[str], absent: set[str], files: Path) -> None:
    program = f"{script(_parser(), 'fish')}\ncomplete -C '{typed}'"
    done = subprocess.run([shell("fish"), "-Nc", program], capture_output=True, text=True, cwd=files, timeout=60)
    offers = {line.split("\t")[0] for line in done.stdout.splitlines()}
    assert done.stderr == ""
    assert among <= offers, offers
    assert not absent & offers


@pytest.mark.parametrize(("typed", "among", "absent"), TYPED)
def test_zsh(typed: str, among: set[str], absent: set[str], files: Path) -> None:
    """The functions that zsh has for offers are replaced by ones that print what they get."""
    words = typed.split(" ")
    listed = " ".join(f"'{word}'" for word in words)
    program = f"""compdef() {{ }}
compadd() {{ shift; print -l -- "$@" }}
_files() {{ print -l -- * }}
_describe() {{ print -l -- "${{(@P)2}}" }}
{script(_parser(), "zsh")}
words=({listed}); CURRENT={len(words)}; _triune"""
    done = subprocess.run([shell("zsh"), "-fuc", program], capture_output=True, text=True, cwd=files, timeout=60)
    offers = {line.split(":")[0] for line in done.stdout.splitlines()}
    assert done.stderr == ""
    # zsh itself keeps what begins as the word that is typed.
    assert among <= offers, offers
    assert not {word for word in absent if word.startswith(words[-1])} & offers


@pytest.mark.parametrize("name", SHELLS)
def test_every_command_and_option_is_there(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", name]) == 0
    written = capsys.readouterr().out

    def walk(parser: argparse.ArgumentParser) -> None:
        for action in parser._actions:
            for option in action.option_strings:
                bare = option.lstrip("-") if name == "fish" else option
                assert bare in written, option
            if isinstance(action, argparse._SubParsersAction):
                for command, inner in action.choices.items():
                    assert command in written
                    walk(inner)

    walk(_parser())


def test_help_cannot_break_out_of_quotes() -> None:
    parser = argparse.ArgumentParser(prog="x")
    parser.add_argument("--one", help='it\'s `touch never` $(touch never) "x"; 100%%: done')
    for name in SHELLS:
        written = script(parser, name)
        for part in ("`touch", "$(touch", "it's"):
            assert part not in written
