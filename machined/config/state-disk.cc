#include "machined/config/state-disk.h"

#include <kj/debug.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/memory/zeroize.h"
#include "machined/config/config-sources.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::machined {
namespace {

// The largest file: a record with a config and the names of duties (trial-record.h).
constexpr size_t kMostFileBytes = kMostConfigBytes + (1u << 20);

// Returns true if the copy exists with mode 0600 and this text. Each boot saves the config that it
// has just read, and then no write is needed.
bool isThere(kj::StringPtr path, kj::ArrayPtr<const char> text) {
  struct stat info;
  if (lstat(path.cStr(), &info) != 0 || info.st_mode != (S_IFREG | 0600)) return false;
  if (info.st_size != text.size()) return false;
  KJ_IF_MAYBE (old, tryReadFile(path, kMostFileBytes)) {
    KJ_DEFER(zeroize(*old));
    return old->asArray() == text;
  }
  return false;
}

}  // namespace

kj::Promise<void> keepOnDisk(ConfigDisk& disk, const KnownConfig& config) {
  if (!config.get().getPersist()) return disk.remove();
  return disk.write(kj::heapArray(config.bytes()));
}

bool isOnDisk(ConfigDisk& disk, kj::ArrayPtr<const char> text) {
  bool is = false;
  (void)kj::runCatchingExceptions([&]() {
    KJ_IF_MAYBE (kept, disk.read()) {
      KJ_DEFER(zeroize(*kept));
      is = text == kept->asArray();
    }
  });
  return is;
}

kj::Maybe<kj::String> otherOnDisk(ConfigDisk& disk, kj::ArrayPtr<const char> text) {
  kj::Maybe<kj::String> copy;
  auto unreadable = kj::runCatchingExceptions([&]() { copy = disk.read(); });
  if (unreadable != nullptr) return nullptr;
  KJ_IF_MAYBE (kept, copy) {
    if (kept->asArray() != text) return kj::mv(copy);
    zeroize(*kept);
  }
  return nullptr;
}

kj::Maybe<kj::String> StateDisk::read() {
  return tryReadFile(path, kMostFileBytes);
}

kj::Promise<void> StateDisk::write(kj::Array<char> text) {
  return uv.blocking([path = kj::str(path), text = kj::mv(text)]() mutable {
    KJ_DEFER(zeroize(text));
    if (!isThere(path, text)) writeFileAtomically(path, text, 0600);
  });
}

kj::Promise<void> StateDisk::remove() {
  return uv.blocking([path = kj::str(path)]() { removeDurably(path); });
}

kj::Maybe<kj::String> StateDisk::whyNotDurable() {
  auto folder = folderOf(path);
  struct statfs info;
  if (statfs(folder.cStr(), &info) != 0) return kj::str(folder, " is missing");
  if (on == StateOn::kLauncher) {
    if (isMountPoint(folder, readFile("/proc/self/mountinfo"))) return nullptr;
    return kj::str("nothing is mounted at ", folder, ", so it is lost with a reboot");
  }
  if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC) {
    return kj::str("no disk is mounted at ", folder, ", which is memory and lost with a reboot");
  }
  return nullptr;
}

}  // namespace talos::machined
