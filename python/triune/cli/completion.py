"""``triune completion``: what shells offer behind a tab, written from the very parser that reads the arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["SHELLS", "script"]


@dataclass(frozen=True)
class Word:
    """A command or an option, with what is said of it in a line."""

    name: str
    help: str


@dataclass(frozen=True)
class Place:
    """What can stand behind some commands."""

    path: tuple[str, ...]
    commands: tuple[Word, ...]
    options: tuple[Word, ...]
    choices: dict[str, tuple[str, ...]]
    """By option: the values that it takes, none if any word or file will do."""
    positional: tuple[str, ...]
    """Values that the first argument takes, none if any word or file will do."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "completion",
        help="print what lets a shell complete commands and options",
        description="Print a script that lets a shell complete commands, options and their values. "
        'bash: eval "$(triune completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, behind compinit. '
        "fish: triune completion fish > ~/.config/fish/completions/triune.fish.",
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="the shell")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune.cli import _parser

    print(script(_parser(), options.shell), end="")
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell of `SHELLS`. Raises KeyError for another."""
    return SHELLS[shell](parser.prog, list(_places(parser, ())))


def _line(text: str | None) -> str:
    """Return one line of help that can stand in any shell's quotes."""
    plain = "" if text in (None, argparse.SUPPRESS) else str(text).replace("%%", "%")
    return re.sub(r"[^\w .,/()<>=+-]", " ", " ".join(plain.split()))[:70].strip()


def _places(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[Place]:
    below: dict[str, argparse.ArgumentParser] = {}
    commands: list[Word] = []
    options: list[Word] = []
    choices: dict[str, tuple[str, ...]] = {}
    positional: tuple[str, ...] = ()
    for action in parser._actions:
        values = tuple(map(str, action.choices or ()))
        if isinstance(action, argparse._SubParsersAction):
            below |= action.choices
            said = {choice.dest: _line(choice.help) for choice in action._choices_actions}
            commands += [Word(name, said.get(name, "")) for name in action.choices]
        elif action.option_strings and action.help is not argparse.SUPPRESS:
            options += [Word(name, _line(action.help)) for name in action.option_strings]
            if action.nargs != 0:
                choices |= dict.fromkeys(action.option_strings, values)
        elif not positional:
            positional = values
    yield Place(path, tuple(commands), tuple(options), choices, positional)
    for name, inner in below.items():
        yield from _places(inner, (*path, name))


def _steps(places: list[Place], form: str) -> str:
    """Return the lines that follow the words of a command line from place to place."""
    paths = [(place.path, word.name) for place in places for word in place.commands]
    return "".join(form.format(before=" ".join((*path, name)), after=" ".join((*path, name))) for path, name in paths)


def _bash(program: str, places: list[Place]) -> str:
    steps = _steps(places, '            "{before}") at="{after}" ;;\n')
    values, words = "", ""
    for place in places:
        at = " ".join(place.path)
        for option, choices in place.choices.items():
            offer = f'-W "{" ".join(choices)}"' if choices else "-f"
            values += f'        "{at}|{option}") COMPREPLY=($(compgen {offer} -- "$word")); return ;;\n'
        names = " ".join(word.name for word in place.commands) or " ".join(place.positional)
        listed = " ".join(word.name for word in place.options)
        words += f'        "{at}") names="{names}"; options="{listed}" ;;\n'
    return f"""# {program}: completion for bash, made by `{program} completion bash`
_{program}() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" at="" each names options
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "${{at:+$at }}$each" in
{steps}        esac
    done
    case "$at|$before" in
{values}    esac
    case "$at" in
{words}    esac
    if [[ "$word" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    elif [[ -n "$names" ]]; then
        COMPREPLY=($(compgen -W "$names" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -o bashdefault -F _{program} {program}
"""


def _zsh(program: str, places: list[Place]) -> str:
    steps = _steps(places, '            "{before}") at="{after}" ;;\n')

    def described(words: tuple[Word, ...]) -> str:
        return " ".join(f"'{word.name}:{word.help}'" for word in words)

    values, offers = "", ""
    for place in places:
        at = " ".join(place.path)
        for option, choices in place.choices.items():
            offer = f"compadd -- {' '.join(choices)}" if choices else "_files"
            values += f'        "{at}|{option}") {offer}; return ;;\n'
        names = described(place.commands) or " ".join(f"'{value}'" for value in place.positional)
        offers += f'        "{at}") names=({names}); options=({described(place.options)}) ;;\n'
    return f"""#compdef {program}
# {program}: completion for zsh, made by `{program} completion zsh`
_{program}() {{
    local at="" each
    local -a names options
    for each in "${{(@)words[2,CURRENT-1]}}"; do
        case "${{at:+$at }}$each" in
{steps}        esac
    done
    case "$at|${{words[CURRENT-1]}}" in
{values}    esac
    case "$at" in
{offers}    esac
    if [[ "${{words[CURRENT]}}" == -* ]]; then
        _describe option options
    elif (( $#names )); then
        _describe command names
    else
        _files
    fi
}}
compdef _{program} {program}
"""


def _fish(program: str, places: list[Place]) -> str:
    steps = _steps(places, '            case "{before}"\n                set at "{after}"\n')
    lines = ""
    for place in places:
        at = " ".join(place.path)
        where = f"-n '__{program}_at \"{at}\"'"
        for word in place.commands:
            lines += f"complete -c {program} {where} -f -a {word.name} -d '{word.help}'\n"
        if place.positional:
            lines += f"complete -c {program} {where} -f -a '{' '.join(place.positional)}'\n"
        for word in place.options:
            kind, name = ("-l", word.name[2:]) if word.name.startswith("--") else ("-s", word.name[1:])
            takes = ""
            if word.name in place.choices:
                choices = place.choices[word.name]
                takes = f" -x -a '{' '.join(choices)}'" if choices else " -r"
            lines += f"complete -c {program} {where} {kind} {name}{takes} -d '{word.help}'\n"
    return f"""# {program}: completion for fish, made by `{program} completion fish`
function __{program}_at
    set -l at ""
    for each in (commandline -opc)[2..-1]
        switch (string trim -- "$at $each")
{steps}        end
    end
    test "$at" = "$argv[1]"
end
{lines}"""


SHELLS: dict[str, Callable[[str, list[Place]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""The shells that there are scripts for."""
