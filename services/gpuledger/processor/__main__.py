"""``python -m gpuledger.processor``."""

from gpuledger.processor.cli import main

if __name__ == "__main__":
    main()
