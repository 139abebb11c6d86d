"""Run a campaign on a remote machine through ssh and rsync, and fetch its results (docs/remote.md).

Called again, `run` goes on from wherever the campaign is: it follows a running one, starts an interrupted one and
fetches a finished one. Ctrl-C ends only the following.
"""

import argparse
import sys

from trainmark.errors import run_command
from trainmark.remote.call import read_call
from trainmark.remote.campaign import RemoteCampaign
from trainmark.remote.connection import Connection


def main() -> None:
    """Run, look or stop."""
    arguments = parse_arguments(sys.argv[1:])
    call = read_call(arguments.config, arguments.also, arguments.options) if arguments.action == "run" else None
    with Connection(arguments.machine, arguments.python) as connection:
        campaign = RemoteCampaign(connection, arguments.folder)
        if call is None:
            print(campaign.status() if arguments.action == "status" else campaign.stop())
            return
        try:
            sys.exit(campaign.run(call, prepares=arguments.prepare))
        except KeyboardInterrupt:
            print("\nno longer followed; what was started there goes on, and the same call follows it")
            raise


def parse_arguments(words: list[str]) -> argparse.Namespace:
    """Parse the command line, whose words after -- are options of snakemake."""
    end = words.index("--") if "--" in words else len(words)
    usage = "%(prog)s {run,status,stop} [user@]host [config ...] [options] [-- options of snakemake]"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=usage
    )
    parser.add_argument("action", choices=("run", "status", "stop"), help="run: copy, set up, train and fetch")
    parser.add_argument("machine", metavar="[user@]host", help="as ssh takes it")
    parser.add_argument("config", nargs="*", help="config files, in this folder (default: config/config.yaml)")
    parser.add_argument("--folder", default="trainmark", help="folder there, from the home folder (default: trainmark)")
    parser.add_argument("--python", default="python3", help="Python there (default: python3)")
    parser.add_argument("--prepare", action="store_true", help="set up there and check the GPUs, no more")
    parser.add_argument("--also", action="append", default=[], metavar="PATH", help="copy this of this folder, too")
    return parser.parse_intermixed_args(words[:end], argparse.Namespace(options=words[end + 1 :]))


if __name__ == "__main__":
    run_command(main)
