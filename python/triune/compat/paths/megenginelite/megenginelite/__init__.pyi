# For type checkers: the names behind the vendor's import name. At run time __init__.py puts the modules themselves here.
from triune.megenginelite import *  # noqa: F403
from triune.megenginelite import __all__ as __all__
from triune.megenginelite import __version__ as __version__
