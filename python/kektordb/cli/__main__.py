"""`python -m kektordb.cli` is `kektordb`."""

from kektordb.cli.app import main

main()
