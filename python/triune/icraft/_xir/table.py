"""Makes operator classes of tables.

A table says the inputs (``bias?`` may be left out, ``inputs*`` is a list), the attributes, and the forms of the constructor.
A form is the names of its parameters in order; behind ``/`` are the ones that may be left out, whose defaults are the
attributes'. A name that is no attribute stands for several of equal value: ``stride`` for all whose name begins with
``stride_``, ``pool_size`` for ``pool_…``, ``pad_top_bottom`` for ``pad_top`` and ``pad_bottom``; ``short=attribute`` gives
another name to one.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any

from triune.icraft._xir.attributes import Attr
from triune.icraft._xir.binding import REQUIRED, shown
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import OPERATORS, Operation, Rule, as_value

__all__ = ["ALIASES", "define"]

ALIASES: dict[str, str] = {}
"""Former names of operators, to their names."""


def define(
    name: str,
    doc: str,
    inputs: str,
    attrs: Sequence[Attr] = (),
    forms: Sequence[str] = (),
    *,
    rule: Rule | None,
    activation: bool = False,
    aliases: Sequence[str] = (),
) -> Any:
    """Return the class of an operator. Without `forms` its constructor takes the inputs, then all attributes, with defaults."""
    slots = inputs.split()
    table = {attribute.name: attribute for attribute in attrs}
    texts = forms or [" ".join([*slots, "/", *table]) if table else inputs]
    parsed = [_Form(text, slots, table) for text in texts]
    bound = [[(parameter, form.default(parameter)) for parameter in form.parameters] for form in parsed]

    def construct(op: Operation, found: dict[str, Any]) -> None:
        form = next(form for form in parsed if form.parameters == list(found) or set(form.parameters) == set(found))
        form.apply(op, found)

    body: dict[str, Any] = {
        "__doc__": f"{doc}\n\n{_described(name, bound, attrs)}",
        "__module__": "triune.icraft.xir",
        "type_key": f"icraft::xir::{name}Node",
        "_table": table,
        "_forms": bound,
        "_rule": rule,
        "_activation": activation,
        "_params_names": [attribute.name for attribute in attrs if "Params" in attribute.kind.shown],
        "_construct": construct,
        "_texts": texts,
        "_slots": slots,
        "__signature__": _signature(bound[0]),
        **{attribute.name: _property(attribute) for attribute in attrs},
    }
    made: Any = types.new_class(name, (Operation,), exec_body=lambda namespace: namespace.update(body))
    OPERATORS[f"icraft::xir::{name}"] = made
    for alias in aliases:
        ALIASES[alias] = name
        OPERATORS[f"icraft::xir::{alias}"] = made
    return made


class _Form:
    """One form of a constructor."""

    def __init__(self, text: str, slots: Sequence[str], table: dict[str, Attr]) -> None:
        before, _, after = text.partition("/")
        self._optional = [word.partition("=")[0] for word in after.split()]
        words = [*before.split(), *after.split()]
        named = {slot.rstrip("?*"): slot for slot in slots}
        self._slots: dict[str, str] = {}
        self._table = table
        self.parameters: list[str] = []
        self.targets: dict[str, list[str]] = {}
        for word in words:
            parameter, _, target = word.partition("=")
            parameter = parameter.rstrip("?")
            self.parameters.append(parameter)
            slot = named.get(target or parameter.rstrip("*"))
            if slot is not None or parameter.startswith("*"):
                self._slots[parameter] = slot or parameter
            else:
                self.targets[parameter] = [target] if target else _targets(parameter, table)

    def default(self, parameter: str) -> Any:
        """Return a parameter's default."""
        if parameter not in self._optional:
            return REQUIRED
        return self._table[self.targets[parameter][0]].initial()

    def apply(self, op: Operation, found: dict[str, Any]) -> None:
        """Set inputs and attributes. Raises TypeError or ValueError if something is of a wrong kind."""
        for parameter, value in found.items():
            if parameter in self._slots:
                _set_input(op, self._slots[parameter], value)
            else:
                for target in self.targets[parameter]:
                    try:
                        op._attributes[target] = self._table[target].kind.convert(value)
                    except (TypeError, ValueError) as error:
                        raise TypeError(f"{parameter}: {error}") from None


def _targets(parameter: str, table: dict[str, Attr]) -> list[str]:
    if parameter in table:
        return [parameter]
    prefix, *sides = parameter.split("_")
    if parameter == "output_pad":
        prefix, sides = parameter, []
    if not sides or sides == ["size"]:
        found = [name for name in table if name.startswith(f"{prefix}_")]
    else:
        found = [f"{prefix}_{side}" for side in sides]
    assert all(name in table for name in found or [parameter]), parameter
    return found


def _set_input(op: Operation, slot: str, value: Any) -> None:
    if slot.startswith("*"):
        values = value[0] if len(value) == 1 and isinstance(value[0], list | tuple) else value
        op._inputs += [as_value(one) for one in values]
    elif slot.endswith("*"):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{slot[:-1]}: a list of values is needed, not {type(value).__name__}")
        op._inputs += [as_value(one) for one in value]
    elif slot.endswith("?") and (value is None or (isinstance(value, ObjectRef) and not value.defined())):
        return
    else:
        op._inputs.append(as_value(value))


def _property(attribute: Attr) -> property:
    name, kind = attribute.name, attribute.kind

    def get(op: Operation) -> Any:
        return op._attributes[name]

    def put(op: Operation, value: Any) -> None:
        op.setAttr(name, value)

    get.__annotations__["return"] = kind.shown
    return property(get, put, doc=attribute.doc)


def _signature(form: Sequence[tuple[str, Any]]) -> inspect.Signature:
    parameters = []
    for name, default in form:
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if name.startswith("*"):
            kind, name = inspect.Parameter.VAR_POSITIONAL, name[1:]
        given = inspect.Parameter.empty if default is REQUIRED or kind is inspect.Parameter.VAR_POSITIONAL else default
        parameters.append(inspect.Parameter(name.rstrip("*"), kind, default=given))
    return inspect.Signature(parameters)


def _described(name: str, forms: Sequence[Any], attrs: Sequence[Attr]) -> str:
    lines = [f"Made by {shown(name, forms)}, by a cast ``{name}(op)``, or empty by ``{name}.Init()``."]
    if attrs:
        lines += [
            "",
            "Values out of their bounds raise Error when outputs are inferred, and in `validate`.",
            "",
            "Attributes:",
            *(f"    {attribute.name} ({attribute.kind.shown}): {attribute.doc}" for attribute in attrs),
        ]
    return "\n".join(lines)
