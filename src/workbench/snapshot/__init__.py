"""What is frozen when a person presses Shift-Enter: the cell, its names, modules, notebook, environment and data.

Law: it reads the kernel and the disk, and writes blobs and one folder under ``snapshots/``; it never starts anything,
and imports no torch of its own. ``cell``, ``pickling``, ``capture.load`` and ``spawned`` are used inside runners too.
"""
