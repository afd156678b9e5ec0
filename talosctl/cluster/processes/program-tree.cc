#include "talosctl/cluster/processes/program-tree.h"

#include <errno.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/error.h"

namespace talos::cluster {
namespace {

constexpr kj::StringPtr kMarker = ".stamp"_kj;  // file that rootfs/buildroot.sh writes last
// Folders of a tree with the programs that local clusters run, and the files that these programs
// load.
constexpr kj::StringPtr kRunFrom[] = {"/usr/bin"_kj,
                                      "/usr/sbin"_kj,
                                      "/lib64"_kj,
                                      "/usr/lib64"_kj,
                                      "/usr/lib/x86_64-linux-gnu"_kj,
                                      "/usr/share/qemu"_kj,
                                      "/usr/share/seabios"_kj,
                                      "/usr/share/OVMF"_kj};

kj::Maybe<kj::String> ownerError(kj::StringPtr path, const struct stat& found,
                                 kj::ArrayPtr<const uid_t> owners) {
  for (auto owner : owners) {
    if (owner == found.st_uid) return nullptr;
  }
  return kj::str(path, " belongs to uid ", found.st_uid);
}

kj::Maybe<kj::String> entryError(kj::StringPtr path, const struct stat& found,
                                 kj::ArrayPtr<const uid_t> owners) {
  KJ_IF_MAYBE (error, ownerError(path, found, owners)) return kj::mv(*error);
  if (!S_ISLNK(found.st_mode) && (found.st_mode & S_IWOTH) != 0) {
    return kj::str("everybody can write to ", path);
  }
  return nullptr;
}

// Returns true for a folder as /tmp (mode 1777) if the next part of the path is a folder: others
// can neither rename nor remove a folder of ours in it, and cannot make a folder that belongs to
// us. Returns false for a file: its name may be a link of another user to another file of ours.
bool keepsFolder(const struct stat& found, kj::StringPtr next) {
  struct stat below;
  return (found.st_mode & S_ISVTX) != 0 && lstat(next.cStr(), &below) == 0 &&
         S_ISDIR(below.st_mode);
}

bool isIn(kj::StringPtr path, kj::StringPtr folder) {
  if (!path.startsWith(folder)) return false;
  return path.size() == folder.size() || folder == "/" || path[folder.size()] == '/';
}

// Does what pathError() does. `closed`: a folder in which no folder as /tmp may be, because files
// that other users add might be loaded; may be empty.
kj::Maybe<kj::String> partsError(kj::StringPtr path, kj::ArrayPtr<const uid_t> owners,
                                 kj::StringPtr closed) {
  auto real = realpath(path.cStr(), nullptr);
  if (real == nullptr) return kj::str("cannot find ", path, ": ", strerror(errno));
  KJ_DEFER(free(real));
  kj::StringPtr whole = real;
  kj::Vector<kj::String> parts;
  for (size_t end = 1; end <= whole.size(); ++end) {  // begins with "/"
    if (end > 1 && end < whole.size() && whole[end] != '/') continue;
    parts.add(kj::heapString(whole.slice(0, end)));
  }
  for (auto i : kj::indices(parts)) {
    struct stat found;
    if (lstat(parts[i].cStr(), &found) < 0) return kj::str("cannot read ", parts[i]);
    bool open = closed.size() == 0 || !isIn(parts[i], closed);
    bool keeps = open && i + 1 < parts.size() && keepsFolder(found, parts[i + 1]);
    KJ_IF_MAYBE (error, (keeps ? ownerError : entryError)(parts[i], found, owners)) {
      return kj::mv(*error);
    }
  }
  return nullptr;
}

// Checks the content of a folder that has been checked itself.
kj::Maybe<kj::String> contentError(kj::StringPtr folder, kj::ArrayPtr<const uid_t> owners) {
  namespace fs = std::filesystem;
  for (auto& entry : fs::recursive_directory_iterator(folder.cStr())) {
    kj::StringPtr path = entry.path().c_str();
    struct stat found;
    if (lstat(path.cStr(), &found) < 0) return kj::str("cannot read ", path);
    KJ_IF_MAYBE (error, entryError(path, found, owners)) return kj::mv(*error);
    if (!S_ISLNK(found.st_mode) || access(path.cStr(), F_OK) < 0) continue;
    KJ_IF_MAYBE (error, pathError(path, owners)) return kj::mv(*error);
  }
  return nullptr;
}

kj::String resolved(kj::String path) {
  auto real = realpath(path.cStr(), nullptr);
  if (real == nullptr) return path;
  KJ_DEFER(free(real));
  return kj::str(real);
}

}  // namespace

kj::Vector<kj::String> inTree(kj::StringPtr root, kj::StringPtr program) {
  kj::Vector<kj::String> command;
  if (root.size() > 0) {
    command.add(kj::str(root, "/lib64/ld-linux-x86-64.so.2"));
    command.add(kj::str("--library-path"));
    command.add(kj::str(root, "/usr/lib/x86_64-linux-gnu"));
    command.add(kj::str("--argv0"));
    KJ_IF_MAYBE (slash, program.findLast('/')) command.add(kj::str(program.slice(*slash + 1)));
  }
  command.add(kj::str(program));
  return command;
}

kj::String buildFolder() {
  char self[4096];
  ssize_t n;
  KJ_SYSCALL(n = readlink("/proc/self/exe", self, sizeof self - 1));
  auto path = kj::heapString(self, n);
  for (int up = 0; up < 2; ++up) {  // …/build/out/talosctl
    KJ_IF_MAYBE (slash, path.findLast('/')) {
      path = kj::heapString(path.slice(0, *slash));
    }
  }
  return path;
}

kj::Array<uid_t> trustedOwners() {
  kj::Vector<uid_t> owners;
  owners.add(0);
  owners.add(geteuid());
  auto caller = geteuid() == 0 ? getenv("SUDO_UID") : nullptr;
  if (caller != nullptr) {
    KJ_IF_MAYBE (uid, kj::StringPtr(caller).tryParseAs<uid_t>()) owners.add(*uid);
  }
  return owners.releaseAsArray();
}

kj::Maybe<kj::String> pathError(kj::StringPtr path, kj::ArrayPtr<const uid_t> owners) {
  return partsError(path, owners, "");
}

kj::Maybe<kj::String> buildRootError(kj::StringPtr tree, kj::ArrayPtr<const uid_t> owners) {
  KJ_IF_MAYBE (e, pathError(tree, owners)) return kj::mv(*e);
  auto marker = kj::str(tree, "/", kMarker);
  if (access(marker.cStr(), F_OK) < 0) {
    return kj::str(tree, " is not a build root: it has no ", kMarker);
  }
  KJ_IF_MAYBE (e, pathError(marker, owners)) return kj::mv(*e);
  return treeError(tree, owners);
}

kj::Maybe<kj::String> treeError(kj::StringPtr tree, kj::ArrayPtr<const uid_t> owners) {
  KJ_IF_MAYBE (e, pathError(tree, owners)) return kj::mv(*e);
  auto real = resolved(kj::str(tree));
  for (auto folder : kRunFrom) {
    auto path = kj::str(tree, folder);
    if (access(path.cStr(), F_OK) < 0) continue;
    KJ_IF_MAYBE (e, partsError(path, owners, real)) return kj::mv(*e);
    KJ_IF_MAYBE (e, contentError(path, owners)) return kj::mv(*e);
  }
  return nullptr;
}

FoundProgram findProgram(kj::StringPtr root, kj::StringPtr path, bool orHost, kj::StringPtr hint) {
  bool named = root.size() > 0;
  auto tree = resolved(named ? kj::str(root) : kj::str(buildFolder(), "/root"));
  auto program = kj::str(tree, path);
  kj::Maybe<kj::String> error;
  if (access(program.cStr(), X_OK) == 0) {
    error = (named ? treeError : buildRootError)(tree, trustedOwners());
    if (error == nullptr) return {kj::mv(tree), kj::mv(program)};
    if (named) {
      fail(ErrorKind::kPermissionDenied,
           kj::str("cannot run ", program, ": ", KJ_ASSERT_NONNULL(error),
                   "; use a tree of root or ",
                   "of your own, in a folder that others cannot write to"));
    }
  }
  if (orHost && access(path.cStr(), X_OK) == 0) return {kj::str(), kj::str(path)};
  auto places = orHost ? kj::str(program, " or ", path) : kj::str(program);
  KJ_IF_MAYBE (e, error) {
    fail(ErrorKind::kPermissionDenied, kj::str("cannot run ", program, ": ", *e, "; ", hint));
  }
  fail(ErrorKind::kNotFound, kj::str("cannot find ", places, "; ", hint));
}

}  // namespace talos::cluster
