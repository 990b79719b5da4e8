"""What a program's own models, data sets and measures are derived from."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TextIO

from triune._text import short
from triune.axelera.types.enums import ColorFormat
from triune.axelera.types.img import Image

__all__ = [
    "BaseEvalSample",
    "DataAdapter",
    "DataLoader",
    "EvalResult",
    "Evaluator",
    "FrameInput",
    "Model",
    "ONNXModel",
    "SharedParameterError",
]


class SharedParameterError(Exception):
    """A data set needs what only the model knows."""


class DataLoader(Protocol):
    """What gives batches: something with a length that can be gone through."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches."""
        ...


class BaseEvalSample(abc.ABC):
    """A result, or what it should be, in the form that an `Evaluator` takes."""

    @property
    @abc.abstractmethod
    def data(self) -> Any:
        """The data themselves."""


@dataclass
class FrameInput:
    """A picture that goes into a pipeline, with what should be found in it."""

    img: Image | None = None
    ground_truth: BaseEvalSample | None = None
    img_id: Any = ""
    stream_id: int = 0

    @classmethod
    def from_image(
        cls,
        img: Any,
        color_format: ColorFormat | str | None = None,
        ground_truth: BaseEvalSample | None = None,
        img_id: Any = "",
        stream_id: int = 0,
    ) -> Self:
        """Take a picture of any kind that `Image.fromany` takes."""
        return cls(Image.fromany(img, color_format), ground_truth, img_id, stream_id)


class Model(abc.ABC):
    """A model that is deployed; a class of a program's own has `init_model_deploy`, which loads its weights."""

    task_category: Any = None
    input_tensor_layout: Any = None
    input_tensor_shape: Any = None
    input_color_format: Any = None

    @abc.abstractmethod
    def init_model_deploy(self, model_info: Any, dataset_config: Any, **kwargs: Any) -> None:
        """Load the model."""

    def override_preprocess(self, img: Any) -> Any:
        """Make a tensor of a picture, where the pipeline does not. Raises NotImplementedError unless a class has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no override_preprocess")


class ONNXModel(Model):
    """A model whose network is `onnx_model`, an ``onnx.ModelProto`` that `init_model_deploy` loads."""

    onnx_model: Any = None


class DataAdapter:
    """A data set: what calibrates a model, and what it is measured with."""

    def __init__(self, dataset_config: Any, model_info: Any) -> None:
        """Take the data set's entry of the network file, and the model's."""
        self.dataset_config, self.model_info = dataset_config, model_info

    def set_dataset_download_callback(self, callback: Callable[..., Any]) -> None:
        """Take the function that fetches pictures which stand for the data."""
        self._download = callback

    def create_calibration_data_loader(self, transform: Any, root: Any, batch_size: int, **kwargs: Any) -> Any:
        """Return batches for calibration. Raises NotImplementedError unless a class has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no create_calibration_data_loader")

    def create_validation_data_loader(self, root: Any, target_split: str, **kwargs: Any) -> Any:
        """Return batches to measure with. Raises NotImplementedError unless a class has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no create_validation_data_loader")

    def reformat_for_calibration(self, batched_data: Any) -> Any:
        """Return a batch as the model takes it: as it is, unless a class has its own."""
        return batched_data

    def reformat_for_validation(self, batched_data: Any) -> list[FrameInput]:
        """Return a batch as pictures with what should be found. Raises NotImplementedError unless a class has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no reformat_for_validation")

    def evaluator(
        self,
        dataset_root: Any,
        dataset_config: Any,
        model_info: Any,
        custom_config: Any,
        pair_validation: bool = False,
    ) -> Evaluator:
        """Return what measures results. Raises NotImplementedError unless a class has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no evaluator")


class Evaluator(abc.ABC):
    """Measures results, one by one, then all together."""

    @abc.abstractmethod
    def process_meta(self, meta: Any) -> None:
        """Take the results for one picture."""

    @abc.abstractmethod
    def collect_metrics(self) -> EvalResult:
        """Return what was measured."""


class EvalResult:
    """What an `Evaluator` measured: values of metrics, each by one or several aggregators.

    Going through it yields (metric, aggregator, value); the aggregator is "" for a metric without. Values are kept as they are
    given; `percentages` has those that are fractions of one, to be shown as percentages.
    """

    def __init__(
        self,
        metric_names: Iterable[str],
        aggregators: dict[str, list[str]] | None = None,
        key_metric: str | None = None,
        key_aggregator: str | None = None,
    ) -> None:
        """Take the names; `key_metric` and `key_aggregator` are what stands for all."""
        self.metric_names, self.aggregators = list(metric_names), dict(aggregators or {})
        self._key_metric, self._key_aggregator = key_metric, key_aggregator
        self._values: dict[tuple[str, str], Any] = {}
        self.percentages: set[tuple[str, str]] = set()
        self.custom_print_function: Callable[..., Any] | None = None

    def set_metric_result(
        self, metric_name: str, value: Any, aggregator_name: str | None = None, is_percentage: bool = False
    ) -> None:
        """Take a value, a percentage as a fraction of one (`is_percentage`); one that is there is replaced.

        Raises ValueError for a metric that was not named, or for an aggregator that is none of the metric's where some were
        named for it.
        """
        if metric_name not in self.metric_names:
            raise ValueError(short(f"metric {metric_name!r} is none of {', '.join(self.metric_names)}"))
        allowed = self.aggregators.get(metric_name)
        if aggregator_name and allowed is not None and aggregator_name not in allowed:
            raise ValueError(
                short(f"aggregator {aggregator_name!r} of {metric_name!r} is none of {', '.join(allowed)}")
            )
        key = (metric_name, aggregator_name or "")
        self._values[key] = value
        (self.percentages.add if is_percentage else self.percentages.discard)(key)

    def __iter__(self) -> Iterator[tuple[str, str, Any]]:
        """Yield metric, aggregator and value, in the order in which they were set."""
        for (metric, aggregator), value in self._values.items():
            yield metric, aggregator, value

    def __getitem__(self, metric_name: str) -> dict[str, Any]:
        """Return the values of a metric by aggregator. Raises KeyError if there are none."""
        found = {aggregator: value for metric, aggregator, value in self if metric == metric_name}
        if not found:
            raise KeyError(metric_name)
        return found

    @property
    def key_metric(self) -> Any:
        """The value of `key_metric` by `key_aggregator`, which stands for all; None if it was not set."""
        return self._values.get((self._key_metric or "", self._key_aggregator or ""))

    def print_results(self, stream: TextIO) -> None:
        """Write the results by `custom_print_function`. Raises ValueError if there is none."""
        if self.custom_print_function is None:
            raise ValueError("there is no custom_print_function")
        self.custom_print_function(stream)
