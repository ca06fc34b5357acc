package disk

import "golang.org/x/sys/unix"

// kinds are file systems that lack something, or can clone files.
var kinds = map[uint32]FileSystem{
	unix.MSDOS_SUPER_MAGIC: {Kind: "FAT", NoLinks: true},
	unix.EXFAT_SUPER_MAGIC: {Kind: "exFAT", NoLinks: true},
	unix.BTRFS_SUPER_MAGIC: {Kind: "btrfs", Clones: true},
	unix.XFS_SUPER_MAGIC:   {Kind: "XFS", Clones: true},
	unix.NFS_SUPER_MAGIC:   {Kind: "NFS"},
	unix.SMB_SUPER_MAGIC:   {Kind: "SMB"},
	unix.SMB2_SUPER_MAGIC:  {Kind: "SMB"},
	unix.CIFS_SUPER_MAGIC:  {Kind: "SMB"},
	unix.V9FS_MAGIC:        {Kind: "9p"},
	unix.FUSE_SUPER_MAGIC:  {Kind: "FUSE"},
}

func (s *FileSystem) examine(path string) {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return
	}
	kind := kinds[uint32(st.Type)]
	s.Kind, s.NoLinks, s.Clones = kind.Kind, kind.NoLinks, kind.Clones
	s.ReadOnly = st.Flags&unix.ST_RDONLY != 0
	s.NoExec = st.Flags&unix.ST_NOEXEC != 0
	var x unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &x) == nil && x.Mask&unix.STATX_MNT_ID != 0 {
		s.mounted = x.Mnt_id
	}
}
