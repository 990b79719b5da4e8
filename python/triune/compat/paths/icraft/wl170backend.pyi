from triune.icraft.wl170backend import *  # noqa: F403
