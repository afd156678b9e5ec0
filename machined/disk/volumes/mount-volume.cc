#include "machined/disk/volumes/mount-volume.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/vector.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/memory/secret-buffer.h"
#include "machined/disk/volumes/mount-table.h"

namespace talos::machined {
namespace {

constexpr unsigned kAttributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME;

// Returns the kernel's messages on this context since the last call: "e text", "w text", one for
// each read.
kj::String kernelMessages(int context) {
  kj::Vector<kj::String> messages;
  char text[512];
  for (ssize_t size; messages.size() < 8 && (size = read(context, text, sizeof(text) - 1)) > 2;) {
    auto end = text + size;
    while (end > text && end[-1] == '\n') --end;
    messages.add(kj::heapString(text + 2, static_cast<size_t>(end - text - 2)));
  }
  return kj::strArray(messages, "; ");
}

[[noreturn]] void refuse(int context, int error, kj::StringPtr device, FileSystem type) {
  auto messages = context < 0 ? kj::String() : kernelMessages(context);
  fail(ErrorKind::kUnavailable,
       kj::str("cannot mount ", device, " (", nameOf(type), "): ", strerror(error),
               messages == nullptr ? "" : ": ", messages));
}

}  // namespace

kj::AutoCloseFd openFileSystem(kj::StringPtr device, FileSystem type, MountAccess access,
                               MountUse use) {
  // The kernel requests the driver through modprobe.
  int context = fsopen(nameOf(type).cStr(), FSOPEN_CLOEXEC);
  if (context < 0) refuse(-1, errno, device, type);
  kj::AutoCloseFd closer(context);
  bool readOnly = access == MountAccess::kReadOnly;
  if (fsconfig(context, FSCONFIG_SET_STRING, "source", device.cStr(), 0) != 0 ||
      (readOnly && fsconfig(context, FSCONFIG_SET_FLAG, "ro", nullptr, 0) != 0) ||
      fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    refuse(context, errno, device, type);
  }
  unsigned attributes = kAttributes | (readOnly ? MOUNT_ATTR_RDONLY : 0) |
                        (use == MountUse::kData ? MOUNT_ATTR_NOEXEC : 0);
  int mount = fsmount(context, FSMOUNT_CLOEXEC, attributes);
  if (mount < 0) refuse(context, errno, device, type);
  return kj::AutoCloseFd(mount);
}

void attach(int mount, kj::StringPtr target) {
  KJ_SYSCALL(move_mount(mount, "", AT_FDCWD, target.cStr(), MOVE_MOUNT_F_EMPTY_PATH), target);
}

namespace {

struct mount_attr attributesOf(MountOptions options) {
  constexpr uint64_t kSecure = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  struct mount_attr result = {};
  result.attr_clr = kSecure | MOUNT_ATTR_RDONLY | MOUNT_ATTR__ATIME;
  result.attr_set = (options.secure ? kSecure : 0) | (options.readOnly ? MOUNT_ATTR_RDONLY : 0) |
                    (options.accessTimes ? MOUNT_ATTR_RELATIME : MOUNT_ATTR_NOATIME);
  return result;
}

}  // namespace

void setMountOptions(int mount, MountOptions options) {
  auto attributes = attributesOf(options);
  KJ_SYSCALL(mount_setattr(mount, "", AT_EMPTY_PATH, &attributes, sizeof attributes));
}
void setMountOptions(kj::StringPtr target, MountOptions options) {
  auto attributes = attributesOf(options);
  KJ_SYSCALL(mount_setattr(AT_FDCWD, target.cStr(), 0, &attributes, sizeof attributes), target);
}

bool isMountPoint(kj::StringPtr target, kj::StringPtr mountinfo) {
  return mountSource(target, mountinfo) != nullptr;
}

bool isMountPoint(kj::StringPtr target) {
  // A launcher's folder may be that of a server, which is not asked.
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  struct statx found;
  if (statx(AT_FDCWD, target.cStr(), kFlags, 0, &found) == 0)
    return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  // XFS that has shut down after an error of its disk refuses the call (EIO), and is mounted.
  return isMountPoint(target, readFile("/proc/self/mountinfo"));
}

kj::Maybe<kj::String> mountSource(kj::StringPtr target, kj::StringPtr mountinfo) {
  kj::Maybe<kj::String> found;
  for (auto line : Lines(mountinfo)) {
    KJ_IF_MAYBE (mount, mountOf(line)) {
      if (unescaped(mount->target) == target) found = unescaped(mount->source);
    }
  }
  return found;
}

kj::Maybe<kj::Array<char>> readFileAt(int directory, kj::StringPtr name, size_t limit) {
  open_how how{};
  how.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  int fd = static_cast<int>(syscall(SYS_openat2, directory, name.cStr(), &how, sizeof how));
  if (fd < 0) {
    int error = errno;
    if (error == ENOENT) return nullptr;
    fail(ErrorKind::kUnavailable, kj::str("cannot open ", name, ": ", strerror(error)));
  }
  kj::AutoCloseFd closer(fd);
  struct stat info;
  KJ_SYSCALL(fstat(fd, &info));
  if (!S_ISREG(info.st_mode)) {
    fail(ErrorKind::kInvalidArgument, kj::str(name, " is not a regular file"));
  }
  SecretBuffer content;  // it may be a machine config
  char piece[16384];
  KJ_DEFER(zeroize(kj::arrayPtr(piece, sizeof piece)));
  for (;;) {
    ssize_t size = read(fd, piece, sizeof(piece));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      int error = errno;
      fail(ErrorKind::kUnavailable, kj::str("cannot read ", name, ": ", strerror(error)));
    }
    if (size == 0) break;
    content.add(kj::arrayPtr(piece, size));
    if (content.size() > limit) {
      fail(ErrorKind::kInvalidArgument, kj::str(name, " is larger than ", limit >> 20, " MiB"));
    }
  }
  return content.copy();
}

kj::Promise<void> reportMountWait(kj::Timer& timer, kj::String node,
                                  kj::Function<void(kj::StringPtr line)>& say) {
  for (auto passed = 1 * kj::MINUTES;; passed += 1 * kj::MINUTES) {
    co_await timer.afterDelay(1 * kj::MINUTES);
    say(kj::str("waiting for ", node, " to be mounted for ", passed / kj::MINUTES,
                " min, of at most ", kMountTimeout / kj::MINUTES,
                "; its journal may have to be replayed"));
  }
}

}  // namespace talos::machined
