#include "machined/services/containers/left-bundle.h"

#include <errno.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <filesystem>

#include "common/base/log.h"
#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {
namespace {

namespace fs = std::filesystem;

// Kills the processes with the folder as working directory: only shims have it.
void killInside(const fs::path& folder) {
  std::error_code gone;
  for (auto& entry : fs::directory_iterator("/proc", gone)) {
    int pid = atoi(entry.path().filename().c_str());
    if (pid <= 1 || fs::read_symlink(entry.path() / "cwd", gone) != folder) continue;
    log::warn("ending a shim that containerd does not know",
              {{"pid", kj::str(pid)}, {"folder", folder.c_str()}});
    if (kill(pid, SIGKILL) != 0 && errno != ESRCH) KJ_FAIL_SYSCALL("kill(shim)", errno, pid);
  }
}

}  // namespace

kj::Maybe<kj::String> folderInTheWay(kj::StringPtr answer, kj::StringPtr id) {
  constexpr std::string_view kBefore = "failed to start shim: mkdir ", kAfter = ": file exists";
  std::string_view text(answer.begin(), answer.size());
  auto from = text.find(kBefore);
  if (from == text.npos || !text.ends_with(kAfter)) return nullptr;
  from += kBefore.size();
  auto folder = text.substr(from, text.size() - kAfter.size() - from);
  auto own = kj::str("/io.containerd.runtime.v2.task/", kSystemNamespace, "/", id);
  if (!folder.starts_with('/') || !folder.ends_with(std::string_view(own.begin(), own.size())) ||
      folder.find("/../") != folder.npos) {
    return nullptr;
  }
  return kj::heapString(folder.data(), folder.size());
}

void removeLeftBundle(kj::StringPtr folder) {
  fs::path path(folder.cStr());
  killInside(path);
  auto root = path / "rootfs";
  if (umount2(root.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL &&
      errno != ENOENT) {
    KJ_FAIL_SYSCALL("umount2", errno, root.c_str());
  }
  std::error_code failed;
  fs::remove_all(path, failed);
  KJ_REQUIRE(!failed, "the folder of a shim cannot be removed", folder, failed.message());
}

}  // namespace talos::machined
