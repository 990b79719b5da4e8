from triune.axelera.runtime.cv import *  # noqa: F403
