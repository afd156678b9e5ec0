#include "machined/system/var-directory.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/control-plane-users.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "machined/system/system-tree.h"

namespace talos::machined {
namespace {

// Half of the memory, which is also the kernel's own limit, and a number of files in proportion.
constexpr kj::StringPtr kOptions = "mode=0755,size=50%,nr_inodes=262144"_kj;
constexpr kj::StringPtr kOverlays[] = {"/etc/kubernetes"_kj, "/etc/cni"_kj,
                                       "/usr/libexec/kubernetes"_kj, "/usr/etc/udev"_kj, "/opt"_kj};

struct Folder {
  kj::StringPtr path;
  unsigned owner;
};
constexpr Folder kFolders[] = {{"log/pods"_kj, 0},        {"log/audit/kube"_kj, kApiServerUid},
                               {"lib/kubelet"_kj, 0},     {"run/lock"_kj, 0},
                               {"lib/etcd"_kj, kEtcdUid}, {"lib/etcd-supervisor"_kj, kEtcdUid},
                               {"lib/logd"_kj, kLogdUid}};

// Below it are the empty files that /etc gets. It is in memory, as they are made at each boot.
constexpr kj::StringPtr kEtcNames = "system/run/etc-files"_kj;

// Returns the path below /etc, with links followed, at which a file can be made; nullptr if there
// is something already, or something other than a folder on the way.
kj::Maybe<kj::String> freePlaceInEtc(int root, kj::StringPtr path) {
  auto folder = kj::str(path.slice(1));
  kj::String rest;
  while (folder.size() > 0) {
    auto parts = split(folder);
    auto found = tryOpen(root, parts.directory, O_PATH | O_DIRECTORY, Links::kInRoot);
    KJ_IF_MAYBE (fd, found) {
      // A link whose target does not exist yet is something, too.
      if (tryStat(*fd, parts.name) != nullptr) return nullptr;
      auto top = kj::str(relativeTo(root, *fd), "/", parts.name, rest);
      if (!top.startsWith("etc/")) return nullptr;
      return kj::str(top.slice(4));
    }
    rest = kj::str("/", parts.name, rest);
    folder = kj::mv(parts.directory);
  }
  return nullptr;
}

}  // namespace

bool mountEphemeral(kj::StringPtr root, Mounts& mounts) {
  auto path = kj::str(root, "/var");
  if (!mounts.isMountPoint(path)) {
    mounts.tmpfs(path, kOptions);
    return true;
  }
  struct statfs found;
  KJ_SYSCALL(statfs(path.cStr(), &found), path);
  return found.f_type == TMPFS_MAGIC;
}

void setupVarDirectory(kj::StringPtr root) {
  auto var = openTree(kj::str(root, "/var"));
  for (auto& folder : kFolders) {
    auto parts = split(folder.path);
    makeDirectoriesIn(var, parts.directory, 0755);
    auto made = makeDirectoriesIn(var, folder.path, 0700);
    KJ_SYSCALL(fchmod(made, 0700), folder.path);
    KJ_SYSCALL(fchown(made, folder.owner, folder.owner), folder.path);
  }
}

void mountOverlays(kj::StringPtr root, Mounts& mounts) {
  auto var = openTree(kj::str(root, "/var"));
  makeDirectoriesIn(var, "system", 0700);
  for (auto path : kOverlays) {
    auto target = kj::str(root, path);
    if (mounts.isMountPoint(target)) continue;
    auto name = kj::heapString(path.slice(1));
    for (char& c : name) {
      if (c == '/') c = '-';
    }
    auto upper = kj::str("system/overlays/", name, "-diff");
    auto work = kj::str("system/overlays/", name, "-workdir");
    // Files in it have the permissions of the upper layer's top.
    makeDirectoriesIn(var, upper, 0755);
    makeDirectoriesIn(var, work, 0755);
    mounts.overlay(target, kj::str(root, "/var/", upper), kj::str(root, "/var/", work), target);
  }
}

void addToEtc(kj::StringPtr root, Mounts& mounts, kj::ArrayPtr<const kj::String> paths) {
  auto etc = kj::str(root, "/etc");
  if (mounts.isMountPoint(etc)) return;  // the predecessor has done it
  auto tree = openTree(root.size() == 0 ? "/"_kj : root);
  kj::Maybe<kj::AutoCloseFd> names;
  auto make = [&](kj::StringPtr path) {
    KJ_IF_MAYBE (place, freePlaceInEtc(tree, path)) {
      if (names == nullptr) names = makeDirectoriesIn(tree, kEtcNames, 0755);
      auto parts = split(*place);
      auto folder = makeDirectoriesIn(KJ_ASSERT_NONNULL(names), parts.directory, 0755);
      replaceFile(folder, parts.name, nullptr, {});
    }
  };
  for (auto& path : paths) {
    // A path that cannot be made is reported when its file is written.
    auto ignored = kj::runCatchingExceptions([&]() { make(path); });
  }
  if (names == nullptr) return;
  kj::Vector<kj::String> below;
  for (auto path : kOverlays) {
    auto target = kj::str(root, path);
    if (path.startsWith("/etc/") && mounts.isMountPoint(target)) below.add(kj::mv(target));
  }
  mounts.overlayReadOnly(kj::str(root, "/", kEtcNames), etc, below);
}

}  // namespace talos::machined
