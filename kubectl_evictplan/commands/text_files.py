"""Writing a text file so that a reader sees all of it or the old one, never a part."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from kubectl_evictplan.errors import InputError, Problem


def write_text_file(name: str, text: str, *, force: bool, flag: str) -> None:
    """Write ``text`` as UTF-8; an existing file is replaced only with ``force``.

    Symbolic links are not followed, parents are not created, and only regular files are replaced.
    Raises InputError, located at ``flag``, when the file cannot be written.
    """
    path = Path(name)
    _refuse_target(path, name, force=force, flag=flag)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if force:
            temporary.replace(path)
        else:
            # Unlike a rename, a link fails when the name was taken meanwhile.
            path.hardlink_to(temporary)
    except FileExistsError:
        raise _problem("exists already (use --force to replace it)", name, flag) from None
    except OSError as error:
        reason = (error.strerror or "cannot be written").lower()
        raise _problem(reason, name, flag) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _refuse_target(path: Path, name: str, *, force: bool, flag: str) -> None:
    """Raise when something stands there that must not be replaced."""
    if not path.name:
        raise _problem("not a file name", name, flag)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        raise _problem("not a usable file name", name, flag) from None
    if stat.S_ISDIR(mode):
        raise _problem("is a directory", name, flag)
    if not stat.S_ISREG(mode):
        raise _problem("is not a regular file", name, flag)
    if not force:
        raise _problem("exists already (use --force to replace it)", name, flag)


def _problem(message: str, name: str, flag: str) -> InputError:
    return InputError(Problem(message, location=f"{flag} {name}"))
