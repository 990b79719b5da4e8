"""For pytest: virtual cards in tests, and vendors' programs unchanged. pytest finds it by itself where Triune is installed.

The fixture `triune_card` is a card of a test's own; the option ``--triune-compat`` makes the vendors' import names mean Triune in
the tests and in what they start. Nothing is loaded before it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from triune.axelera.runtime import Context, Model, ModelInstance

__all__ = ["VirtualCard", "triune_card"]


@dataclass
class VirtualCard:
    """A virtual card that nobody else has, by the fixture `triune_card`."""

    context: Context
    """The vendor's context, which sees this card alone."""
    folder: Path
    """Where packages go that are compiled for it."""
    _made: int = field(default=0, init=False)

    def load(self, model: str | os.PathLike[str], **options: Any) -> tuple[Model, ModelInstance]:
        """Compile an ONNX file for the card, with the options of `triune.compile`, and load it; or load a package's directory.

        Returns the vendor's model and its instance on the card.

        Raises what `triune.compile` and the vendor's API raise.
        """
        import triune

        path = Path(model)
        if not path.is_dir():
            self._made += 1
            path = triune.compile(path, target="metis", output=self.folder / f"{path.stem}-{self._made}", **options)
        loaded = self.context.load_model(path / "model.json")
        # A sub-device for each image of a run.
        connection = self.context.device_connect(None, loaded.inputs()[0].shape[0])
        return loaded, connection.load_model_instance(loaded)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("triune").addoption(
        "--triune-compat",
        action="store_true",
        help="make the vendors' import names (axelera.runtime, xir, megenginelite, ...) mean Triune",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and make the names importable before tests are collected."""
    config.addinivalue_line(
        "markers", "triune_cards(description): what TRIUNE_CARDS says for this test's triune_card, such as 'm2'"
    )
    if config.getoption("--triune-compat"):
        from triune.cli.compat import VENDORS
        from triune.compat import install

        for vendor, module in VENDORS.items():
            install(vendor, module, environment=True)


@pytest.fixture
def triune_card(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[VirtualCard]:
    """Give a virtual card of the test's own, in its initial state, which tests at the same time do not see.

    Programs that the test starts see the same card. With the marker ``triune_cards("m2")`` it is another one.
    """
    from triune.axelera.runtime import Context

    # What is reserved, and how cards are set, is kept there.
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path_factory.mktemp("triune-cards")))
    marker = request.node.get_closest_marker("triune_cards")
    if marker is None:
        monkeypatch.delenv("TRIUNE_CARDS", raising=False)
    else:
        monkeypatch.setenv("TRIUNE_CARDS", str(marker.args[0]))
    with Context() as context:
        yield VirtualCard(context, tmp_path_factory.mktemp("triune-packages"))
