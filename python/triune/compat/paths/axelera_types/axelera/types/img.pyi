from triune.axelera.types.img import *  # noqa: F403
