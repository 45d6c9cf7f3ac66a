"""Where `gpu-report` begins: Ctrl-C ends it in one line, also while everything else is still imported."""

import gc
import sys


def main() -> int:
    """Run the command that was typed and return its exit status, for the shell."""
    gc.set_threshold(50_000)  # looking for garbage takes a sixth of the time: nearly all is kept to the end
    try:
        from gpu_report import cli

        sys.path.insert(0, "")  # a study's own workloads and train:build_model are found in the current folder
        return cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("gpu-report: interrupted; run the same command again to go on\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
