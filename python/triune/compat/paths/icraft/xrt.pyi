from triune.icraft.xrt import *  # noqa: F403
