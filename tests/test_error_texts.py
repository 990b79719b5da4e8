"""Errors in the sources: programs tell them apart by kinds, and messages are words, not the debug forms of Rust's values."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import triune
from triune.models import DIGITS_INT8

# Debug forms that say what the words would: where they are, and why.
SAID = {
    ("triune-remote/src/protocol/frame.rs", "kind:?"): "the kinds' names are those of the protocol's document",
    ("triune-remote/src/wire.rs", "patience:?"): "a duration has no other form, and this one has its unit",
    ("triune-python/src/timeline.rs", ":?"): "no message: an opcode's name in a table",
}
# Whose panics and assertions may show what they like.
_BROKEN = re.compile(r"\b(?:debug_)?assert\w*!|\bpanic!|\bunreachable!|\blabel = ")


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield the string literals of a Rust file with where they begin, comments left out."""
    token = re.compile(r'//[^\n]*|b?"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.DOTALL)
    for match in token.finditer(source):
        if match[0].startswith('"'):
            yield match.start(), match[0]


def test_messages_have_no_debug_forms(root: Path) -> None:
    found, used = [], set()
    for path in sorted((root / "crates").glob("*/src/**/*.rs")):
        name = path.relative_to(root / "crates").as_posix()
        if path.name == "tests.rs" or name.startswith("triune-testing/"):
            continue
        # Modules of tests stand at the end of their file.
        source = path.read_text().partition("#[cfg(test)]\nmod tests {")[0]
        for start, text in literals(source):
            for form in re.findall(r"\{([^{}]*:#?\?)\}", text):
                excuse = next((key for key in SAID if key[0] == name and form.endswith(key[1])), None)
                statement = source[max(source.rfind(";", 0, start), source.rfind("{\n", 0, start)) : start]
                if excuse:
                    used.add(excuse)
                elif not _BROKEN.search(statement):
                    found.append(f"{name}: {text} shows {{{form}}}")
    assert not found, "\n".join(found)
    assert used == set(SAID), "an excuse that nothing needs"


def reads_text(tree: ast.AST) -> Iterator[int]:
    """Yield the lines where something is decided by the text of an exception that was caught, or by its arguments."""
    for handler in ast.walk(tree):
        if isinstance(handler, ast.ExceptHandler) and handler.name:
            names = {handler.name}
        elif isinstance(handler, ast.FunctionDef):
            names = {argument.arg for argument in handler.args.args if argument.arg in ("error", "exception")}
        else:
            continue
        for node in ast.walk(handler):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("startswith", "endswith", "find", "index", "count"):
                    sides = [node.func.value]
                elif node.func.attr in ("match", "search", "fullmatch", "findall"):
                    sides = node.args
            texts = (part for side in sides for part in ast.walk(side))
            if any(
                isinstance(part, ast.Call)
                and isinstance(part.func, ast.Name)
                and part.func.id in ("str", "repr")
                and isinstance(part.args[0], ast.Name)
                and part.args[0].id in names
                for part in texts
            ):
                yield node.lineno
            owner = node.value if isinstance(node, ast.Attribute) and node.attr == "args" else None
            if isinstance(owner, ast.Name) and owner.id in names:
                yield node.lineno


def test_no_behaviour_hangs_on_a_message(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in sorted((root / "python").rglob("*.py"))
        for line in reads_text(ast.parse(path.read_text()))
    ]
    assert not found, found


@pytest.mark.parametrize(
    "body",
    ["if 'no' in str(error): pass", "str(error).startswith('no')", "re.search('no', str(error))", "error.args[0]"],
)
def test_what_reads_messages_is_found(body: str) -> None:
    assert list(reads_text(ast.parse(f"try:\n    pass\nexcept E as error:\n    {body}\n")))
    assert not list(reads_text(ast.parse("try:\n    pass\nexcept E as error:\n    raise F(f'x: {error}') from None\n")))


def test_debug_forms_are_found() -> None:
    source = '// "{a:?}"\nlet x = format!("{b:?} {} {:#?}", 1); let y = \'"\'; let z = "{c:?}";'
    assert [re.findall(r"\{([^{}]*:#?\?)\}", text) for _, text in literals(source)] == [["b:?", ":#?"], ["c:?"]]


def test_what_lite_raises_is_short(root: Path) -> None:
    """Its exceptions are Python's own, which anybody can raise in passing: they are made in one place, which cuts them."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted((root / "python/triune/megenginelite").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in ("RuntimeError", "TypeError")
    ]
    assert not found, found


def long_texts(tree: ast.AST) -> Iterator[int]:
    """Yield the lines where an exception of Python's own is raised with the form of a value in it that nothing cuts."""

    def shows(node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "short":
            return False
        if isinstance(node, ast.FormattedValue) and node.conversion == ord("r") and node.format_spec is None:
            return True
        return any(shows(part) for part in ast.iter_child_nodes(node))

    own = {name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)}
    for node in ast.walk(tree):
        raised = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name):
            # That a name is no attribute Python itself says at any length.
            if raised.func.id in own - {"AttributeError"} and shows(raised):
                yield node.lineno
        elif isinstance(node, ast.Assert) and node.msg and shows(node.msg):
            yield node.lineno


def test_what_python_raises_is_short(root: Path) -> None:
    """Triune's exceptions cut their messages; Python's own take them as they are. (The command line cuts what it prints.)"""
    package = root / "python/triune"
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in sorted(package.rglob("*.py"))
        if path.parent.name != "compat" and package / "cli" not in path.parents
        for line in long_texts(ast.parse(path.read_text()))
    ]
    assert not found, found


@pytest.mark.parametrize("body", ["raise ValueError(f'x: {a!r}')", "assert a, f'{a!r} is none'"])
def test_what_is_not_cut_is_found(body: str) -> None:
    assert list(long_texts(ast.parse(body)))
    assert not list(long_texts(ast.parse("raise ValueError(short(f'x: {a!r}'))")))


NAME = "n" * 10_000


def _session(call: Callable[[triune.Session, dict[str, np.ndarray]], object]) -> Callable[[], object]:
    return lambda: call(triune.Session(DIGITS_INT8), {"image": np.zeros((1, 1, 8, 8), np.float32)})


def _lite() -> list[Callable[[], object]]:
    from triune import megenginelite as lite

    return [
        lambda: lite.LiteTensor(NAME),  # type: ignore[arg-type]
        lambda: setattr(lite.LiteTensor(lite.LiteLayout([1], "int8")), "layout", NAME),
        lambda: lite.LiteLayout([1], NAME),
        lambda: lite.LiteNetwork().load(NAME),
    ]


def _icraft() -> list[Callable[[], object]]:
    from triune.icraft import xir

    return [
        lambda: xir.Network(NAME, xir.Framework.ONNX, "1").addOp(None),  # type: ignore[arg-type]
        lambda: xir.Network.CreateFromFlatFile(NAME),
        lambda: xir.IntImm(NAME),  # type: ignore[call-overload]
        lambda: xir.Network.CreateFromJsonFile(NAME),
    ]


CALLS = {
    "session": [
        lambda: triune.Session(DIGITS_INT8, threads=NAME),  # type: ignore[arg-type]
        _session(lambda session, _: session.clone(threads=NAME)),  # type: ignore[arg-type]
        _session(lambda session, feeds: session.run(NAME, feeds)),  # type: ignore[arg-type]
        _session(lambda session, feeds: session.run([NAME], feeds)),
        _session(lambda session, feeds: session.run(feeds, out={NAME: None})),  # type: ignore[dict-item]
        _session(lambda session, _: session.prepare({"image": NAME})),  # type: ignore[dict-item]
        _session(lambda session, _: session.prepare({"image": ["a"] * 100_000})),  # type: ignore[dict-item]
        _session(lambda session, _: session.prepare({"image": [-1] * 100_000})),
        _session(lambda session, _: session.prepare({NAME: [1]})),
    ],
    "compile": [
        lambda: triune.compile(DIGITS_INT8, output="unused", bits=NAME),  # type: ignore[arg-type]
        lambda: triune.compile(DIGITS_INT8, output="unused", format=NAME),  # type: ignore[arg-type]
        lambda: triune.compile(DIGITS_INT8, output="unused", input_format=NAME),
    ],
    "lite": _lite(),
    "icraft": _icraft(),
}


@pytest.mark.parametrize(("name", "number"), [(name, at) for name, calls in CALLS.items() for at in range(len(calls))])
def test_messages_are_short_whatever_the_argument(name: str, number: int) -> None:
    with pytest.raises((AssertionError, LookupError, OSError, RuntimeError, TypeError)) as caught:
        CALLS[name][number]()
    assert len(str(caught.value).encode()) < 2048
    assert len(repr(caught.value).encode()) < 2200
