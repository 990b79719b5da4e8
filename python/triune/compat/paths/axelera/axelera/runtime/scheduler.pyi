from triune.axelera.runtime.scheduler import *  # noqa: F403
