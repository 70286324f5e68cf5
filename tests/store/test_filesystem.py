import pytest

from workbench.store.files.filesystem import is_network, kind

MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
proc /proc proc rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/me/local tmpfs rw 0 0
//nas/share /mnt/my\040share cifs rw 0 0
/dev/sdb1 /homework ext4 rw 0 0
first /twice ext4 rw 0 0
host:/twice /twice fuse.sshfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "found", "network"),
    [
        ("/tmp/x", "ext4", False),
        ("/home/me/.workbench", "nfs4", True),
        ("/home/me/local/a/b", "tmpfs", False),
        ("/homework/x", "ext4", False),
        ("/mnt/my share/store", "cifs", True),
        ("/mnt/my shareholder", "ext4", False),
        ("/twice", "fuse.sshfs", True),
    ],
)
def test_the_deepest_mount_decides(tmp_path, path, found, network):
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert kind(path, mounts) == found
    assert is_network(path, mounts) is network


def test_without_a_list_of_mounts_nothing_is_known(tmp_path):
    assert kind("/", tmp_path / "none") == "unknown"
    assert not is_network("/", tmp_path / "none")


def test_this_machine_answers(tmp_path):
    assert kind(tmp_path) != "unknown"
