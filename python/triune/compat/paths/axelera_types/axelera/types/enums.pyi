from triune.axelera.types.enums import *  # noqa: F403
