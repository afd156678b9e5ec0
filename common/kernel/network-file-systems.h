// Types of file systems whose content is on a server, as /proc/self/mountinfo names them.
//
// A call that needs the server's answer (stat, statfs, writing back cached data, and so a plain
// unmount) waits for as long as the server is away, in a state that no signal may end. No other
// work of the node may wait for such a call. Process 1 uses this too: it needs no library.
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
