"""A campaign on a remote machine, through ssh and rsync."""
