"""``python -m proxy`` is ``sparlance``."""

from proxy.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
