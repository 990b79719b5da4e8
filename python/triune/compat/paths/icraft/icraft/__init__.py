"""The vendor's package name; its modules are those of `triune.icraft`. Other parts of an `icraft` stay importable."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)
