// File systems that the kernel opens for us, by its newer calls (fsopen(2), fsconfig(2),
// fsmount(2), move_mount(2)).
//
// A file system that openFileSystem() returns is mounted nowhere: nobody else can reach it, and it
// is unmounted when the descriptor is closed, hence also when the process dies at any line.
// attach() gives it a place; from then on it stays until it is unmounted. All calls block for as
// long as the device does: for the thread pool. Errors carry the kernel's messages for this mount,
// not only a number.
#pragma once

#include <kj/io.h>

#include "machined/confined/parser-client/probed-file-system.h"

namespace talos::machined {

enum class MountAccess { kReadOnly, kReadWrite };

// Programs of containers are run from one that may have them.
enum class MountUse { kData, kPrograms };

// nosuid, nodev, noatime, for data noexec. The module of the file system is loaded if there is one.
kj::AutoCloseFd openFileSystem(kj::StringPtr device, FileSystem type, MountAccess access,
                               MountUse use = MountUse::kData);

void attach(int mount, kj::StringPtr target);

// True if something is mounted exactly there; `mountinfo` is the text of /proc/self/mountinfo.
bool isMountPoint(kj::StringPtr target, kj::StringPtr mountinfo);

// The source that is mounted there, by the name it was mounted with ("/dev/vda5"): of several, the
// one on top.
kj::Maybe<kj::String> mountSource(kj::StringPtr target, kj::StringPtr mountinfo);

// A regular file below the mount's top folder, through no link (openat2(2)); none when it is not
// there.
// InvalidArgument when it is larger than `limit` or something else than a file.
kj::Maybe<kj::Array<char>> readFileAt(int directory, kj::StringPtr name, size_t limit);

}  // namespace talos::machined
