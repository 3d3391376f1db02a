"""Files that people write: scenarios and policies."""

from __future__ import annotations

import sys
from pathlib import Path

from kubectl_evictplan.commands.file_arguments import STDIN, missing_file, refuse_odd_file
from kubectl_evictplan.errors import Correction, InputError, mistake

_BYTES_MAX = 16 * 2**20


def read_written(file: str, kind: str) -> str:
    """Return the text of a file of that kind, or of standard input; InputError when it cannot be read."""
    from kubectl_evictplan.sources.reading import ReadProblem, read

    try:
        if file != STDIN and not Path(file).exists():
            made = Correction((), ("schema", kind), whole=True)
            raise InputError(missing_file(file, made))
        refuse_odd_file(file, f"{kind}.yaml")
        content = read(file, sys.stdin.buffer if sys.stdin is not None else None)
    except OSError as error:
        raise mistake(str(error.strerror).lower(), location=file) from None
    except ReadProblem as error:
        # -R is about the cluster's files.
        reason = str(error).removesuffix(" (use -R/--recursive)")
        raise mistake(reason, location=file) from None
    if len(content.data) > _BYTES_MAX:
        raise mistake(f"larger than {_BYTES_MAX >> 20} MiB", location=file)
    return content.data.decode("utf-8")
