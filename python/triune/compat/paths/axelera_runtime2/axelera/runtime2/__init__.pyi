# For type checkers: the names behind the vendor's import name. At run time __init__.py puts the modules themselves here.
from triune.axelera.runtime import *  # noqa: F403
from triune.axelera.runtime import __all__ as __all__
