"""The file system of a path. Law: it only reads.

SQLite's WAL needs memory shared between all processes that open a database, which a network file system does not
provide; locks there may or may not reach other hosts. The code for both asks :func:`is_network`, and ``workbench
doctor`` reports it.
"""

from __future__ import annotations

import os
from pathlib import Path

_NETWORK = """
9p acfs afs afpfs beegfs beegfs_nodev ceph cifs coda davfs fhgfs fuse.beegfs fuse.ceph fuse.curlftpfs fuse.davfs2
fuse.gcsfuse fuse.glusterfs fuse.goofys fuse.juicefs fuse.mfs fuse.quobyte fuse.rclone fuse.s3fs fuse.seaweedfs
fuse.sshfs fuse.vmhgfs-fuse fuse.weka gfs2 glusterfs gpfs juicefs lustre ncpfs nfs nfs3 nfs4 ocfs2 orangefs panfs
pvfs2 smb3 smbfs vboxsf virtiofs wekafs
"""
#: Network file systems, by their names in /proc/mounts.
NETWORK = frozenset(_NETWORK.split())


def kind(path: Path | str, mounts: Path | str = "/proc/mounts") -> str:
    """The file system of ``path``, by its name in /proc/mounts (``ext4``, ``nfs4``); ``unknown`` if not found.

    ``path`` need not exist yet: then its nearest existing parent decides.
    """
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "unknown"
    target = os.path.realpath(path)
    best, found = -1, "unknown"
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescaped(fields[1])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        # The later of two mounts on one point hides the earlier.
        if inside and len(point) >= best:
            best, found = len(point), fields[2]
    return found


def is_network(path: Path | str, mounts: Path | str = "/proc/mounts") -> bool:
    """True if ``path`` is on another machine's disk."""
    return kind(path, mounts) in NETWORK


def _unescaped(point: str) -> str:
    # The kernel writes space, tab, newline and backslash in octal.
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point
