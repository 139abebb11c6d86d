"""In each environment of the stand-in for conda: writes down where a process imported from, when it ends."""

import atexit
import json
import os
import site
import sys
import sysconfig

if not sys.flags.no_user_site:  # a virtual environment would never see it; one of conda does
    site.addsitedir(site.getusersitepackages())

if "SEEN" in os.environ:
    from pathlib import Path

    def write(exit=os._exit, status=None):
        """Write the files of all modules, and exit if a status is given."""
        homes = (sys.prefix, sysconfig.get_path("stdlib"), os.environ["SCRIPTS"])
        foreign = sorted(
            module.__file__
            for module in list(sys.modules.values())
            if getattr(module, "__file__", None)
            and not any(Path(os.path.abspath(module.__file__)).is_relative_to(home) for home in homes)
        )
        seen = {"prefix": sys.prefix, "executable": sys.executable, "command": sys.argv, "foreign": foreign}
        Path(os.environ["SEEN"], f"{os.getpid()}.json").write_text(json.dumps(seen))
        if status is not None:
            exit(status)

    atexit.register(write)
    os._exit = lambda status: write(status=status)  # how a run ends
