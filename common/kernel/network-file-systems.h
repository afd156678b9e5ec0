// The types of file systems whose content is on a server, as /proc/self/mountinfo has them.
//
// A call that needs the server's answer (stat, statfs, the write of what is in memory, and so a
// plain unmount) waits for as long as the server is away, in a state that no signal may end.
// Nothing else of the node may wait behind it. For process 1, too: no library is needed.
#pragma once

#include <string.h>

namespace talos {

constexpr const char* kNetworkFileSystems[] = {"nfs", "nfs4", "ceph", "cifs", "smb3", "9p", "afs"};

inline bool isNetworkFileSystem(const char* type) {
  for (const char* known : kNetworkFileSystems) {
    if (strcmp(type, known) == 0) return true;
  }
  // Programs that serve a file system themselves ("fuse.sshfs") may wait for a server as well.
  return strncmp(type, "fuse.", 5) == 0;
}

}  // namespace talos
