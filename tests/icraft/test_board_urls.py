"""URLs of devices: which open what, and what is said of the others."""

from __future__ import annotations

import pytest
from xir_networks import small

from triune.icraft import xrt
from triune.icraft._xrt.url import parse
from triune.icraft.xir import InternalError
from triune.icraft.xrt import BuyiDevice, Device, HostDevice, Session, ZG330Device


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("axi://ql100aiu?npu=0x40000000&dma=0x80000000", BuyiDevice),
        ("axi://ql100aiu", BuyiDevice),
        ("axi://zg330aiu?npu=0x40000000&dma=0x80000000", ZG330Device),
        ("sim://zg330", ZG330Device),
        ("sim://buyi", BuyiDevice),
        ("mock://ql100ai?npu=0x40000000&dma=0x80000000", BuyiDevice),
        ("mock://zg330", ZG330Device),
        ("", ZG330Device),
    ],
)
def test_what_a_url_opens(url: str, kind: type[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIUNE_ICRAFT_DEVICE", raising=False)
    device = Device.Open(url)
    assert type(device) is kind
    assert kind(device) is device
    assert f'"url":"{url or "axi://zg330"}"' in str(device)
    assert device.defaultMemRegion().same_as(device.getMemRegion("plddr"))
    Device.Close(device)


def test_the_empty_url_opens_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_ICRAFT_DEVICE", "buyi")
    assert isinstance(Device.Open(""), BuyiDevice)
    monkeypatch.setenv("TRIUNE_ICRAFT_DEVICE", "wl170")
    with pytest.raises(InternalError, match=r"TRIUNE_ICRAFT_DEVICE is 'wl170'.*zg330"):
        Device.Open("")


def test_parts_of_a_url() -> None:
    parts = parse("socket://ql100aiu@192.168.125.148:9981?npu=0x40000000&dma=2147483648")
    assert (parts.protocol, parts.device, parts.target) == ("socket", "ql100aiu", "buyi")
    assert (parts.site, parts.params) == ("192.168.125.148:9981", {"npu": 0x40000000, "dma": 0x80000000})
    assert parse("socket://haps-zg330@192.168.124.24:5001").target == "zg330"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("pcie://zg330", r"no protocol 'pcie'; there are axi, sim, mock, socket"),
        ("axi://zg331", r"no device 'zg331'; there are .*zg330"),
        ("axi://", r"no device ''"),
        ("socket://wl170@192.168.1.2:9981", r"there is no WL170 \(Wolong\): its operators.* are not published"),
        ("zg330", r"is no URL"),
        ("axi:zg330", r"is no URL"),
        ("axi://ql100aiu?clock=5", r"axi has no parameter 'clock'; it has npu, dma"),
        ("axi://ql100aiu?npu=zero", r"'npu' is 'zero'; it has to be an address"),
        ("axi://ql100aiu?npu", r"'npu' is ''"),
        ("axi://ql100aiu?npu=-1", r"'npu' is '-1'"),
        ("axi://ql100aiu?npu=0x1000000000000", r"'npu'"),
        ("axi://ql100aiu?npu=1&npu=1", r"'npu' is given twice"),
        ("axi://ql100aiu?npu=1&", r"no parameter ''"),
        ("axi://ql100aiu@10.0.0.1:9981", r"in this process.*'10\.0\.0\.1:9981'"),
        ("socket://ql100aiu", r"needs the place of its server"),
        ("socket://ql100aiu@", r"needs the place of its server"),
    ],
)
def test_what_is_wrong_with_a_url_is_named(url: str, said: str) -> None:
    with pytest.raises(InternalError, match=said):
        Device.Open(url)
    with pytest.raises(TypeError, match="url: a str is needed, not 5"):
        Device.Open(5)  # type: ignore[arg-type]


def test_programs_of_a_wl170_are_told_why_there_is_none() -> None:
    from triune.icraft import wl170backend
    from triune.icraft.host_backend import HostBackend

    assert wl170backend.__all__ == ["OcmOptMethod", "WL170Backend"]
    network = small()
    # A program that can do without may import it.
    backends, devices = [wl170backend.WL170Backend, HostBackend], [HostDevice.Default()] * 2
    with pytest.raises(InternalError, match=r"WL170Backend: there is no WL170 .* compile for zg330 or buyi"):
        Session.Create(backends, network.view(0), devices)
    with pytest.raises(InternalError, match=r"WL170Backend: there is no WL170"):
        wl170backend.WL170Backend()
    with pytest.raises(AttributeError, match=r"no attribute 'WL170Device': there is no WL170"):
        xrt.WL170Device  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'WL171Device'$"):
        xrt.WL171Device  # noqa: B018
