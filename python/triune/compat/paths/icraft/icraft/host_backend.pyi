from triune.icraft.host_backend import *  # noqa: F403
