// Mounts file systems with the kernel's newer calls (fsopen(2), fsconfig(2), fsmount(2),
// move_mount(2)).
//
// A file system that openFileSystem() returns has no mount point: no other process can reach it,
// and it is unmounted when the descriptor is closed, so also when the process dies at any line.
// attach() gives it a mount point; from then on it stays until it is unmounted. All calls block for
// as long as the device does: for the thread pool. Errors carry the kernel's messages for this
// mount, not only a number.
#pragma once

#include <kj/function.h>
#include <kj/io.h>

#include "common/base/within.h"
#include "machined/confined/parser-client/probed-file-system.h"

namespace talos::machined {

enum class MountAccess { kReadOnly, kReadWrite };

// kPrograms: programs of containers run from the file system.
enum class MountUse { kData, kPrograms };

// Mounts with nosuid, nodev, noatime, and noexec for data. Loads the file system's module if one
// exists.
kj::AutoCloseFd openFileSystem(kj::StringPtr device, FileSystem type, MountAccess access,
                               MountUse use = MountUse::kData);

void attach(int mount, kj::StringPtr target);

// Options of the mount of a volume of users.
struct MountOptions {
  bool secure = true;  // nosuid, nodev and noexec
  bool accessTimes = true, readOnly = false;
};
// Sets the options of a mount, by its descriptor or, with a path, of the mount there.
void setMountOptions(int mount, MountOptions options);
void setMountOptions(kj::StringPtr target, MountOptions options);

// Returns true if a mount point is exactly `target`; `mountinfo` is the text of
// /proc/self/mountinfo.
bool isMountPoint(kj::StringPtr target, kj::StringPtr mountinfo);

// Returns true if a mount point is exactly `target`, by the kernel's word on this path: for callers
// that ask often, because the table of all mounts takes the kernel long to write.
bool isMountPoint(kj::StringPtr target);

// Returns the source mounted at `target`, by the name it was mounted with ("/dev/vda5"); of
// several, the topmost.
kj::Maybe<kj::String> mountSource(kj::StringPtr target, kj::StringPtr mountinfo);

// Returns a regular file below the mount's top folder, without following links (openat2(2));
// nullptr if it does not exist. InvalidArgument if it is larger than `limit` or not a regular file.
kj::Maybe<kj::Array<char>> readFileAt(int directory, kj::StringPtr name, size_t limit);

// Waits for a file system to be mounted. Its journal is replayed first, which takes minutes on a
// slow disk: a boot that gave up would end, and the next boot would start the replay again.
constexpr auto kMountTimeout = 15 * kj::MINUTES;

// Reports each minute, for ever, that `node` is still being mounted.
kj::Promise<void> reportMountWait(kj::Timer& timer, kj::String node,
                                  kj::Function<void(kj::StringPtr line)>& say);

// Resolves with `opening`, or rejects after kMountTimeout. `say` must outlive the promise.
template <typename T>
kj::Promise<T> untilMounted(kj::Timer& timer, kj::String node, kj::Promise<T> opening,
                            kj::Function<void(kj::StringPtr line)>& say) {
  auto reports = reportMountWait(timer, kj::str(node), say).eagerlyEvaluate(nullptr);
  return within(timer, kMountTimeout, kj::mv(opening),
                kj::str("mounting ", node, " timed out after ", kMountTimeout / kj::MINUTES,
                        " minutes"))
      .attach(kj::mv(reports));
}

}  // namespace talos::machined
