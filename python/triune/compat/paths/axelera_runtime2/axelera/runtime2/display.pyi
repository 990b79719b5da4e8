from triune.axelera.runtime.display import *  # noqa: F403
