"""Open the report in a browser. Without a display, serve it on localhost until Ctrl-C and print the address."""

import argparse
import os
import sys
import webbrowser
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from trainmark.errors import DataError, run_command


def serve(folder: Path) -> None:
    """Serve a results folder on a free port of 127.0.0.1. It serves records too, because the report links to them."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, suppress(KeyboardInterrupt):
        port = server.server_port
        print(f"No browser can be opened here. The report is at http://127.0.0.1:{port}/report/ until Ctrl-C.")
        print(f"From another machine, first: ssh -L {port}:127.0.0.1:{port} <this machine>", flush=True)
        server.serve_forever()


def main() -> None:
    """Open the report or serve it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("results"), help="results folder (default: results)"
    )
    folder = parser.parse_args().folder
    page = folder / "report" / "index.html"
    if not page.is_file():
        raise DataError(f"{page}: there is no report yet; run make (or snakemake --cores 4), which writes it")
    display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    address = page.resolve().as_uri()
    if display and webbrowser.open(address):
        print(f"Opened in the browser: {address}")
    else:
        serve(folder)


if __name__ == "__main__":
    run_command(main)
