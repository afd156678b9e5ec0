#include "etcd-supervisor/control/real-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::supervisor {
namespace {

constexpr size_t kMostIntentBytes = 64u << 10;

// What is directly in a folder; nothing when there is none.
kj::Vector<kj::String> namesIn(kj::StringPtr folder) {
  kj::Vector<kj::String> names;
  auto* open = opendir(folder.cStr());
  if (open == nullptr) {
    if (errno == ENOENT) return names;
    KJ_FAIL_SYSCALL("opendir", errno, folder);
  }
  KJ_DEFER(closedir(open));
  for (;;) {
    errno = 0;
    auto* entry = readdir(open);
    if (entry == nullptr) break;
    kj::StringPtr name = entry->d_name;
    if (name != "." && name != "..") names.add(kj::str(name));
  }
  if (errno != 0) KJ_FAIL_SYSCALL("readdir", errno, folder);
  return names;
}

void syncFolder(kj::StringPtr folder) {
  int fd;
  KJ_SYSCALL(fd = open(folder.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder);
  kj::AutoCloseFd owned(fd);
  KJ_SYSCALL(fsync(fd), folder);
}

void removeFile(kj::StringPtr path) {
  if (unlink(path.cStr()) < 0 && errno != ENOENT) KJ_FAIL_SYSCALL("unlink", errno, path);
}

}  // namespace

RealFiles::RealFiles(kj::StringPtr dataFolder, kj::StringPtr stateFolder)
    : dataFolder(kj::str(dataFolder)),
      stateFolder(kj::str(stateFolder)),
      intentPath(kj::str(stateFolder, "/intent")),
      snapshotPath(kj::str(stateFolder, "/snapshot")) {
  removeUnfinished(stateFolder);
}

Data RealFiles::data() {
  for (auto& name : namesIn(kj::str(dataFolder, "/member/wal"))) {
    if (name.endsWith(".wal")) return Data::kWhole;
  }
  return namesIn(dataFolder).empty() ? Data::kNone : Data::kPartial;
}

Intent RealFiles::load() {
  KJ_IF_MAYBE (text, tryReadFile(intentPath, kMostIntentBytes)) {
    KJ_CONTEXT(intentPath);
    return parseIntent(*text);
  }
  return {};
}

void RealFiles::store(const Intent& intent) {
  if (intent.state == Intent::State::kNone) {
    removeFile(intentPath);
    syncFolder(stateFolder);
  } else {
    writeFileAtomically(intentPath, format(intent), 0600);
  }
}

void RealFiles::removeData() {
  for (auto& name : namesIn(dataFolder)) removeTree(kj::str(dataFolder, "/", name));
  syncFolder(dataFolder);
}

void RealFiles::removeSnapshot() {
  removeFile(snapshotPath);
}

}  // namespace talos::supervisor
