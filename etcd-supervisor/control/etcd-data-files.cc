#include "etcd-supervisor/control/etcd-data-files.h"

#include <errno.h>
#include <kj/debug.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"

namespace talos::supervisor {
namespace {

constexpr size_t kMostIntentBytes = 64u << 10;

void removeFile(kj::StringPtr path) {
  if (unlink(path.cStr()) < 0 && errno != ENOENT) KJ_FAIL_SYSCALL("unlink", errno, path);
}

}  // namespace

DiskFiles::DiskFiles(kj::StringPtr dataFolder, kj::StringPtr stateFolder)
    : dataFolder(kj::str(dataFolder)),
      stateFolder(kj::str(stateFolder)),
      intentPath(kj::str(stateFolder, "/intent")),
      snapshotPath(kj::str(stateFolder, "/snapshot")) {
  removeUnfinished(stateFolder);
}

Data DiskFiles::data() {
  for (auto& name : namesIn(kj::str(dataFolder, "/member/wal"))) {
    if (name.endsWith(".wal")) return Data::kWhole;
  }
  return namesIn(dataFolder).empty() ? Data::kNone : Data::kPartial;
}

uint64_t DiskFiles::freeBytes() {
  struct statvfs disk;
  KJ_SYSCALL(statvfs(dataFolder.cStr(), &disk), dataFolder);
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

Intent DiskFiles::load() {
  KJ_IF_MAYBE (text, tryReadFile(intentPath, kMostIntentBytes)) {
    KJ_CONTEXT(intentPath);
    return parseIntent(*text);
  }
  return {};
}

void DiskFiles::store(const Intent& intent) {
  if (format(intent) == format(Intent())) {
    removeFile(intentPath);
    syncFolder(stateFolder);
  } else {
    writeFileAtomically(intentPath, format(intent), 0600);
  }
}

void DiskFiles::removeData() {
  for (auto& name : namesIn(dataFolder)) removeTree(kj::str(dataFolder, "/", name));
  syncFolder(dataFolder);
}

void DiskFiles::removeSnapshot() {
  removeFile(snapshotPath);
}

}  // namespace talos::supervisor
