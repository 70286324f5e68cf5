"""Which file system holds a path. Law: it only looks.

SQLite's WAL needs memory shared between all who open a database, which a network file system does not give; locks
there may reach other hosts or not. Both decide by :func:`is_network`, and ``workbench doctor`` says so.
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
#: File systems whose other end is another machine, by their name in /proc/mounts.
NETWORK = frozenset(_NETWORK.split())


def kind(path: Path | str, mounts: Path | str = "/proc/mounts") -> str:
    """The file system that holds ``path``, as /proc/mounts names it (``ext4``, ``nfs4``); ``unknown`` without one.

    ``path`` need not exist yet: then its nearest parent that does decides.
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
    """True where ``path`` lies on another machine's disk."""
    return kind(path, mounts) in NETWORK


def _unescaped(point: str) -> str:
    # The kernel writes space, tab, newline and backslash in octal.
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point
