#include "machined/upgrade/live/root-mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kProcess1 = "sbin/init"_kj;
constexpr size_t kMostMounts = 16u << 20;  // bytes of mountinfo, of a node with many pods

[[noreturn]] void refused(kj::StringPtr what, kj::StringPtr target) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot ", what, " ", target, ": ", strerror(errno)));
}

uint64_t mountIdOf(kj::StringPtr path) {
  struct statx found;
  KJ_SYSCALL(statx(AT_FDCWD, path.cStr(), AT_NO_AUTOMOUNT, STATX_MNT_ID, &found), path);
  return found.stx_mnt_id;
}

bool isMountRoot(kj::StringPtr path) {
  struct statx found;
  KJ_SYSCALL(statx(AT_FDCWD, path.cStr(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &found), path);
  return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

kj::String relative(kj::StringPtr path) {
  return kj::str(path.startsWith("/") ? path.slice(1) : path);
}

// --- digests

void addFile(Sha256& digest, int fd, kj::StringPtr path) {
  auto block = kj::heapArray<kj::byte>(1u << 20);
  for (;;) {
    ssize_t n;
    KJ_SYSCALL(n = read(fd, block.begin(), block.size()), path);
    if (n == 0) return;
    digest.add(block.slice(0, static_cast<size_t>(n)));
  }
}

kj::AutoCloseFd openAt(int folder, kj::StringPtr name, int flags) {
  int raw;
  KJ_SYSCALL(raw = openat(folder, name.cStr(), flags | O_RDONLY | O_NOFOLLOW | O_CLOEXEC), name);
  return kj::AutoCloseFd(raw);
}

kj::Vector<kj::String> namesIn(int folder) {
  int copy;
  KJ_SYSCALL(copy = fcntl(folder, F_DUPFD_CLOEXEC, 3));
  auto* stream = fdopendir(copy);
  if (stream == nullptr) KJ_FAIL_SYSCALL("fdopendir", errno);
  KJ_DEFER(closedir(stream));
  kj::Vector<kj::String> names;
  while (auto* entry = readdir(stream)) {
    kj::StringPtr name = entry->d_name;
    if (name != "." && name != "..") names.add(kj::str(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Adds names, kinds, rights, owners and contents.
void addTree(Sha256& digest, int folder, kj::StringPtr path) {
  for (auto& name : namesIn(folder)) {
    struct stat info;
    KJ_SYSCALL(fstatat(folder, name.cStr(), &info, AT_SYMLINK_NOFOLLOW), path, name);
    auto head = kj::str(path, "/", name, " ", info.st_mode, " ", info.st_uid, " ", info.st_gid, " ",
                        S_ISREG(info.st_mode) ? info.st_size : 0, "\n");
    digest.add(head.asBytes());
    if (S_ISDIR(info.st_mode)) {
      addTree(digest, openAt(folder, name, O_DIRECTORY), kj::str(path, "/", name));
    } else if (S_ISREG(info.st_mode)) {
      addFile(digest, openAt(folder, name, 0), name);
    } else if (S_ISLNK(info.st_mode)) {
      char target[4096];
      ssize_t n;
      KJ_SYSCALL(n = readlinkat(folder, name.cStr(), target, sizeof target), name);
      digest.add(kj::arrayPtr(target, static_cast<size_t>(n)).asBytes());
    }
  }
}

// Returns "" if it does not exist.
kj::String digestOf(int top, kj::StringPtr path) {
  int raw = openat(top, path.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0 && errno == ENOENT) return kj::String();
  if (raw < 0) refused("read", path);
  kj::AutoCloseFd fd(raw);
  struct stat info;
  KJ_SYSCALL(fstat(fd, &info), path);
  Sha256 digest;
  if (S_ISDIR(info.st_mode)) {
    addTree(digest, fd, "");
  } else {
    addFile(digest, fd, path);
  }
  return digest.hex();
}

// Returns the present root as its image has it: without the mounts on it.
kj::AutoCloseFd openBareRoot() {
  int raw = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (raw < 0) refused("clone", "the root");
  return kj::AutoCloseFd(raw);
}

// Returns false for a process in a container, whose files are not those of a system.
bool hasOurRoot(int pid) {
  struct stat ours, its;
  auto root = kj::str("/proc/", pid, "/root/");
  return stat(root.cStr(), &its) == 0 && stat("/", &ours) == 0 && its.st_dev == ours.st_dev &&
         its.st_ino == ours.st_ino;
}

void leavePeers(kj::StringPtr path) {
  struct mount_attr attributes = {};
  attributes.propagation = MS_PRIVATE;
  if (mount_setattr(AT_FDCWD, path.cStr(), AT_RECURSIVE | AT_SYMLINK_NOFOLLOW, &attributes,
                    sizeof attributes) != 0) {
    refused("make private", path);
  }
}

}  // namespace

// No other mount copies what is in kPlace: the copies of the new root must not have it in turn.
void preparePlace() {
  clearPlace();
  if (mount("tmpfs", kPlace.cStr(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0) {
    refused("mount a tmpfs on", kPlace);
  }
  if (mount(nullptr, kPlace.cStr(), nullptr, MS_UNBINDABLE, nullptr) != 0) {
    refused("make unbindable", kPlace);
  }
  if (mkdir(kNewRoot.cStr(), 0755) != 0) refused("make", kNewRoot);
}

void clearPlace() {
  while (isMountRoot(kPlace)) {
    leavePeers(kPlace);
    if (umount2(kPlace.cStr(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) refused("unmount", kPlace);
  }
}

kj::Vector<TopMount> mountsOfRoot() {
  auto table = KJ_REQUIRE_NONNULL(tryReadFile("/proc/self/mountinfo", kMostMounts));
  return topMounts(table, mountIdOf("/"), kPlace);
}

kj::Vector<kj::String> placesMissing(kj::ArrayPtr<const TopMount> mounts) {
  kj::Vector<kj::String> missing;
  for (auto& each : mounts) {
    auto place = kj::str(kNewRoot, each.target);
    struct stat present, next;
    KJ_SYSCALL(lstat(each.target.cStr(), &present), each.target);
    bool fits =
        lstat(place.cStr(), &next) == 0 && S_ISDIR(next.st_mode) == S_ISDIR(present.st_mode);
    if (!fits) missing.add(kj::str(each.target));
  }
  return missing;
}

kj::Vector<FixedPart> fixedParts(bool running, kj::ArrayPtr<const TopMount> mounts) {
  kj::AutoCloseFd top;
  if (running) {
    top = openBareRoot();
  } else {
    int raw = open(kNewRoot.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (raw < 0) refused("open", kNewRoot);
    top = kj::AutoCloseFd(raw);
  }
  kj::Vector<FixedPart> parts;
  parts.add(FixedPart{kj::str("process 1"), digestOf(top, kProcess1)});
  for (auto& each : mounts) {
    for (auto layer : each.layersOfImage(mounts)) {
      parts.add(FixedPart{kj::str("the files of ", layer), digestOf(top, relative(layer))});
    }
  }
  return parts;
}

void enterNewRoot(kj::ArrayPtr<const TopMount> mounts) {
  for (auto& each : mounts) {
    auto place = kj::str(kNewRoot, each.target);
    if (mount(each.target.cStr(), place.cStr(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
      refused("copy the mount", each.target);
    }
  }
  // The folder of the new image that is kPlace later.
  auto old = kj::str(kNewRoot, kPlace);
  if (syscall(SYS_pivot_root, kNewRoot.cStr(), old.cStr()) != 0) refused("make the root", kNewRoot);
  // The rest cannot be undone, and an error of it only leaves the old tree visible.
  (void)kj::runCatchingExceptions([]() { clearPlace(); });
  if (mount(nullptr, "/", nullptr, MS_SHARED, nullptr) != 0) errno = 0;
}

dev_t deviceOf(kj::StringPtr path) {
  struct stat info;
  KJ_SYSCALL(stat(path.cStr(), &info), path);
  return info.st_dev;
}

namespace {

bool hasEnded(int pid) {
  struct stat program;
  return stat(kj::str("/proc/", pid, "/exe").cStr(), &program) != 0;
}

bool mapsOldFiles(int pid) {
  struct stat program;
  if (stat(kj::str("/proc/", pid, "/exe").cStr(), &program) != 0) return false;
  if (program.st_dev == deviceOf("/") || !hasOurRoot(pid)) return false;
  char device[16];
  snprintf(device, sizeof device, "%02x:%02x", major(program.st_dev), minor(program.st_dev));
  auto maps = tryReadFile(kj::str("/proc/", pid, "/maps"), kMostMounts);
  KJ_IF_MAYBE (text, maps) {
    auto root = openBareRoot();
    for (auto& file : mappedFiles(*text, device)) {
      auto mapped = digestOf(AT_FDCWD, kj::str("/proc/", pid, "/map_files/", file.range));
      if (mapped.size() == 0 || mapped != digestOf(root, relative(file.path))) return true;
    }
    return false;
  }
  return false;
}

}  // namespace

bool runsOldFiles(int pid) {
  bool old = false;
  auto problem = kj::runCatchingExceptions([&]() { old = mapsOldFiles(pid); });
  if (hasEnded(pid)) return false;  // what was read of it may be of its end
  KJ_IF_MAYBE (e, problem) kj::throwFatalException(kj::mv(*e));
  return old;
}

}  // namespace talos::machined
