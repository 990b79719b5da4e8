"""What is written beside models: manifests, what a model is, what it gives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from triune._files import TEXT_LIMIT, read
from triune._text import short
from triune.axelera.types.enums import ColorFormat, ModelType, TaskCategory, TensorLayout

__all__ = ["Manifest", "ModelInfo", "OutputInfo"]


@dataclass
class Manifest:
    """What ``manifest.json`` of a compiled model says: ``Manifest(**json.loads(text))`` reads one, its ``__dict__`` is written.

    Shapes and padding are those of the card, with the batch in front and the channels last; a padding is eight numbers, low and
    high of each axis. Scales and zero points are pairs, one a tensor. Names of tensors came with version 1.1.
    """

    quantized_model_file: str
    quantize_params: Any = ()
    dequantize_params: Any = ()
    input_shapes: Any = ()
    input_dtypes: Any = ()
    input_shapes_original: Any = ()
    output_shapes: Any = ()
    output_dtypes: Any = ()
    output_shapes_original: Any = ()
    n_padded_ch_inputs: Any = None
    n_padded_ch_outputs: Any = None
    input_tensor_layout: str = "NHWC"
    model_lib_file: str | None = None
    model_params_file: str | None = None
    preprocess_graph: str | None = None
    postprocess_graph: str | None = None
    model_metadata: dict[str, Any] | None = None
    manifest_version: str = "1.1"
    input_names: Any = ()
    output_names: Any = ()

    def is_compiled(self) -> bool:
        """Say whether there is a compiled model (`model_lib_file`), and not a quantized one alone."""
        return self.model_lib_file is not None


@dataclass
class OutputInfo:
    """One output of a model: its shape, name and dtype before compilation."""

    shape: tuple[int, ...]
    name: str = ""
    dtype: str = "float32"


@dataclass
class ModelInfo:
    """What a model is: its task, its input, its classes, and where its weights come from.

    `input_tensor_shape` has three extents, in front of which a batch of 1 is set, or four. Raises ValueError for others, and
    for names that the enumerations do not have.
    """

    name: str
    task_category: TaskCategory | str | Sequence[str]
    input_tensor_shape: Any = None
    input_color_format: ColorFormat | str | None = ColorFormat.RGB
    input_tensor_layout: TensorLayout | str | None = TensorLayout.NCHW
    num_classes: int = 1
    labels: Any = field(default_factory=list)
    label_filter: Any = field(default_factory=list)
    weight_path: str = ""
    weight_url: str = ""
    weight_md5: str = ""
    prequantized_url: str = ""
    prequantized_md5: str = ""
    dataset: str = ""
    base_dir: str = ""
    class_name: str = ""
    class_path: str = ""
    version: str = ""
    extra_kwargs: dict[str, Any] = field(default_factory=dict)
    precompiled_url: str = ""
    precompiled_path: str = ""
    precompiled_md5: str = ""
    model_type: ModelType | str = ModelType.DEEP_LEARNING
    manifest: Manifest | None = None
    output_info: list[OutputInfo] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make enumerations of names, and four extents of three."""
        self.task_category = TaskCategory.parse(self.task_category)
        self.model_type = ModelType.parse(self.model_type)
        if self.input_color_format is not None:
            self.input_color_format = ColorFormat.parse(self.input_color_format)
        if self.input_tensor_layout is not None:
            self.input_tensor_layout = TensorLayout.parse(self.input_tensor_layout)
        if self.input_tensor_shape is not None:
            shape = list(self.input_tensor_shape)
            if len(shape) not in (3, 4):
                raise ValueError(short(f"Invalid input tensor shape {shape}: expected three or four extents"))
            # Three extents of CHWN are those without the last axis.
            last = self.input_tensor_layout is TensorLayout.CHWN
            self.input_tensor_shape = shape if len(shape) == 4 else ([*shape, 1] if last else [1, *shape])

    def _extent(self, axis: str) -> int:
        if self.input_tensor_shape is None or not isinstance(self.input_tensor_layout, TensorLayout):
            raise ValueError(short(f"{self.name}: the shape of the input is not known"))
        return int(self.input_tensor_shape[self.input_tensor_layout.name.index(axis)])

    @property
    def input_width(self) -> int:
        """Pixels a row of the input, as `input_tensor_layout` says which axis that is. Raises ValueError if there is no
        shape."""
        return self._extent("W")

    @property
    def input_height(self) -> int:
        """Rows of the input, as `input_tensor_layout` says which axis that is. Raises ValueError if there is no shape."""
        return self._extent("H")

    @property
    def input_channel(self) -> int:
        """Channels of the input, as `input_tensor_layout` says which axis that is. Raises ValueError if there is no shape."""
        return self._extent("C")

    def to_json(self) -> str:
        """Return the fields as JSON, indented by 2, enumerations by name: what `from_json` reads.

        What belongs to one machine is left out: the fields behind `extra_kwargs`, such as the manifest and paths of compiled
        models.
        """
        names = [one.name for one in fields(self)]
        written = names[: names.index("extra_kwargs") + 1]
        return json.dumps({name: _plain(getattr(self, name)) for name in written}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes | Path) -> Self:
        """Read what `to_json` wrote, or a file of it.

        Raises ValueError for anything else, and `triune.errors.FileError` if the file cannot be read.
        """
        found = json.loads(read(text, TEXT_LIMIT) if isinstance(text, Path) else text)
        known = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or not found.keys() <= known:
            raise ValueError(
                f"no ModelInfo: unknown {sorted(set(found) - known) if isinstance(found, dict) else 'JSON'}"
            )
        return cls(**found)


def _plain(value: Any) -> Any:
    if isinstance(value, TaskCategory):
        return "|".join(str(member.name) for member in value)
    if isinstance(value, type):
        return [str(member) for member in getattr(value, "__members__", ())]
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else value
