package disk

// setLock sets a lock that belongs to an open file: F_OFD_SETLK of the system's
// <sys/fcntl.h>.
const setLock = 90
