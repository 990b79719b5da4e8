"""What is set on a network before it loads a model, and what each wish does here."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triune.megenginelite import _devices
from triune.megenginelite._binding import Binding
from triune.megenginelite._config import (
    EFFECTS,
    MOST_THREADS,
    LiteConfig,
    LiteExtraConfig,
    LiteNetworkIO,
    LiteOptions,
    Settings,
)
from triune.megenginelite._errors import failure
from triune.megenginelite.base import LOG
from triune.megenginelite.struct import LiteAlgoSelectStrategy

__all__ = ["Configured"]


class Configured:
    """A network as far as it is configured; see `triune.megenginelite.LiteNetwork`."""

    def __init__(self, config: LiteConfig | None, io: LiteNetworkIO | None) -> None:
        """Keep the configuration; nothing is loaded."""
        given: object = config
        hint = ": a model's file is given to load(path)" if isinstance(given, str | Path) else ""
        assert given is None or isinstance(given, LiteConfig), (
            f"config: expected a LiteConfig, got {type(given).__name__}{hint}"
        )
        assert io is None or isinstance(io, LiteNetworkIO), f"io: expected a LiteNetworkIO, got {type(io).__name__}"
        self.config = LiteConfig() if config is None else config
        self.network_io = LiteNetworkIO() if io is None else io
        # What the program set, and what counts: once a model is loaded, with what a packed one says.
        self._own_settings = Settings.of(self.config)
        self._settings = self._own_settings
        self._configure_by_model = True
        self._binding: Binding | None = None
        self._async: Callable[[], Any] | None = None
        # Whether a fork took the thread away that had the model.
        self._lost = False

    def _settable(self, what: str) -> Settings:
        if self._binding is not None:
            raise failure(f"{what} is set before a model is loaded; this network has loaded one")
        return self._settings

    def _loaded(self) -> Binding:
        if self._lost:
            raise failure(
                "a run of this network was under way when this process was forked, in a thread that is not in this process: "
                "load the model again"
            )
        if self._binding is None:
            raise failure("the network has loaded no model: call load or share_weights_with first")
        return self._binding

    @property
    def device_id(self) -> int:
        """The number of the device; in inplace mode the vendor's marks for it. Set it before loading.

        Raises RuntimeError if it is set later.
        """
        if self._settings.inplace:
            return -1 if self._settings.threads == 1 else -1025
        return self._settings.device_id

    @device_id.setter
    def device_id(self, device_id: int) -> None:
        self._settable("device_id").device_id = _integer("device_id", device_id)

    @property
    def stream_id(self) -> int:
        """The number of the stream, without effect: there is one queue. Set it before loading.

        Raises RuntimeError if it is set later.
        """
        return self._settings.stream_id

    @stream_id.setter
    def stream_id(self, stream_id: int) -> None:
        self._settable("stream_id").stream_id = _integer("stream_id", stream_id)

    @property
    def threads_number(self) -> int:
        """How many threads compute a run, 1 by default; 0 leaves it so. Set it before loading.

        Raises RuntimeError if it is set later, or out of range.
        """
        return self._settings.threads

    @threads_number.setter
    def threads_number(self, nr_threads: int) -> None:
        settings = self._settable("threads_number")
        count = _integer("threads_number", nr_threads)
        if not 0 <= count <= MOST_THREADS:
            raise failure(f"threads_number: expected 0 (leave it) to {MOST_THREADS}, got {count}")
        settings.threads = max(count, 1)

    def is_cpu_inplace_mode(self) -> bool:
        """Return whether runs are computed in the thread that calls `forward` and nowhere else; False at first."""
        return self._settings.inplace

    def enable_cpu_inplace_mode(self) -> None:
        """Compute runs in the thread that calls `forward` alone, whatever `threads_number` is.

        Raises RuntimeError if a model is loaded, an async callback is set, or the network is not for the host.
        """
        settings = self._settable("inplace mode")
        if self._async is not None:
            raise failure("inplace mode and an async callback exclude each other")
        if settings.device_type not in _devices.HOSTS:
            raise failure(f"inplace mode is for LITE_CPU, this network is for {settings.device_type.name}")
        settings.inplace = True

    def use_tensorrt(self) -> None:
        """Ask for TensorRT, without effect: there is none.

        Raises RuntimeError if a model is loaded.
        """
        self._settable("TensorRT").tensorrt = True

    def enable_global_layout_transform(self) -> None:
        """Ask for the search for layouts, without effect: kernels choose theirs. `dump_layout_transform_model` needs it.

        Raises RuntimeError if a model is loaded.
        """
        self._settable("the layout transform").layout_transform = True

    def extra_configure(self, extra_config: LiteExtraConfig) -> None:
        """Say whether the configuration that a packed model brings counts.

        Raises AssertionError if `extra_config` is no `LiteExtraConfig`, RuntimeError if a model is loaded that was
        configured so already.
        """
        assert isinstance(extra_config, LiteExtraConfig), "extra_configure: expected a LiteExtraConfig"
        configure = not extra_config.disable_configure_by_model_info
        if self._binding is not None and configure:
            raise failure("extra_configure is set before a model is loaded; this network has loaded one")
        self._configure_by_model = configure

    def set_network_algo_policy(
        self,
        policy: LiteAlgoSelectStrategy | int,
        shared_batch_size: int = 0,
        binary_equal_between_batch: bool = False,
    ) -> None:
        """Accept a strategy for choosing algorithms, without effect: there is one for each operator and shape.

        Its results are the same for every run, and for every sample of a batch that is alike.

        Raises RuntimeError if `policy` is no combination of strategies.
        """
        value = _integer("policy", policy)
        every = functools.reduce(operator.or_, LiteAlgoSelectStrategy)
        if not 0 < value <= every:
            raise failure(f"policy: expected a combination of LiteAlgoSelectStrategy, got {policy!r}")
        if _integer("shared_batch_size", shared_batch_size) < 0:
            raise failure(f"shared_batch_size: expected 0 or more, got {shared_batch_size}")
        self._settings.asked["set_network_algo_policy"] = value
        LOG.info("set_network_algo_policy: %s", EFFECTS["set_network_algo_policy"])

    def set_network_algo_workspace_limit(self, size_limit: int) -> None:
        """Accept a limit of an algorithm's workspace in bytes, without effect: memory is planned for the least.

        Raises RuntimeError if it is negative.
        """
        if _integer("size_limit", size_limit) < 0:
            raise failure(f"size_limit: expected 0 or more bytes, got {size_limit}")
        self._settings.asked["set_network_algo_workspace_limit"] = size_limit
        LOG.info("set_network_algo_workspace_limit: %s", EFFECTS["set_network_algo_workspace_limit"])

    @property
    def effective_options(self) -> dict[str, str]:
        """What was asked for and differs from the default, by name: its value, and what it does here. An addition to the
        vendor's class."""
        return {
            name: f"{value!r}: {EFFECTS[name] or 'in force'}" for name, value in self._asked(self._settings).items()
        }

    @staticmethod
    def _asked(settings: Settings) -> dict[str, Any]:
        defaults = LiteOptions()
        found: dict[str, Any] = {
            name: value for name, value in settings.options.items() if value != getattr(defaults, name)
        }
        found |= {
            name: value
            for name, value in (
                ("auto_optimize_inference", settings.auto_optimize),
                ("stream_id", settings.stream_id),
                ("use_tensorrt", settings.tensorrt),
                ("enable_global_layout_transform", settings.layout_transform),
            )
            if value
        }
        return found | settings.asked

    def _report(self, title: str, settings: Settings) -> None:
        if settings.inplace and settings.threads > 1:
            LOG.warning(
                "%s: threads_number=%d has no effect: inplace mode computes in one thread",
                title,
                settings.threads,
            )
        for name, value in self._asked(settings).items():
            if EFFECTS[name]:
                LOG.info("%s: %s=%r: %s", title, name, value, EFFECTS[name])


def _integer(argument: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise failure(f"{argument}: expected an int, got {value!r}") from None
