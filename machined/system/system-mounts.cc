#include "machined/system/system-mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

[[noreturn]] void refused(kj::StringPtr what, kj::StringPtr target) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot ", what, " ", target, ": ", strerror(errno)));
}

}  // namespace

bool KernelMounts::isMountPoint(kj::StringPtr path) const {
  struct statx found;
  if (statx(AT_FDCWD, path.cStr(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    refused("look at", path);
  }
  return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

void KernelMounts::tmpfs(kj::StringPtr target, kj::StringPtr options) {
  if (mount("tmpfs", target.cStr(), "tmpfs", MS_NOSUID | MS_NODEV, options.cStr()) != 0)
    refused("mount a tmpfs on", target);
}

void KernelMounts::overlay(kj::StringPtr lower, kj::StringPtr upper, kj::StringPtr work,
                           kj::StringPtr target) {
  auto options = kj::str("lowerdir=", lower, ",upperdir=", upper, ",workdir=", work);
  if (mount("overlay", target.cStr(), "overlay", 0, options.cStr()) != 0)
    refused("mount an overlay on", target);
}

// The mounts below are put aside and back, because the new mount covers them: a path that stayed
// covered could not be unmounted, and would keep its file system in use.
void KernelMounts::overlayReadOnly(kj::StringPtr top, kj::StringPtr target,
                                   kj::ArrayPtr<const kj::String> below) {
  kj::Vector<kj::AutoCloseFd> aside;
  for (auto& path : below) {
    int raw = open_tree(AT_FDCWD, path.cStr(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (raw < 0) refused("clone the tree of", path);
    aside.add(raw);
  }
  for (auto& path : below) unmount(path);
  auto options = kj::str("lowerdir=", top, ":", target);
  int wrong = 0;
  if (mount("overlay", target.cStr(), "overlay", MS_RDONLY, options.cStr()) != 0) wrong = errno;
  for (auto i : kj::indices(below)) {
    if (move_mount(aside[i], "", AT_FDCWD, below[i].cStr(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
      refused("put back the mount on", below[i]);
  }
  errno = wrong;
  if (wrong != 0) refused("mount an overlay on", target);
}

// Uses the newer calls, so that the mount has its attributes before it becomes visible.
void KernelMounts::bindReadOnly(kj::StringPtr source, kj::StringPtr target) {
  int raw = open_tree(AT_FDCWD, source.cStr(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (raw < 0) refused("clone the tree of", source);
  kj::AutoCloseFd tree(raw);
  struct mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0 ||
      move_mount(tree, "", AT_FDCWD, target.cStr(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    refused(kj::str("show ", source, " as"), target);
  }
}

void KernelMounts::unmount(kj::StringPtr target) {
  if (umount2(target.cStr(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) refused("unmount", target);
}

kj::AutoCloseFd KernelMounts::withoutMounts(int directory) const {
  int raw = open_tree(directory, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (raw < 0) refused("clone the tree of", "a directory");
  return kj::AutoCloseFd(raw);
}

}  // namespace talos::machined
