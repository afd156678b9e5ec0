#include "common/base/user-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/base/replace-file.h"

namespace talos {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr unsigned kMostLinks = 40;  // as the kernel

struct Owner {
  uid_t user;
  gid_t group;
};

Owner ownerOfFolder(kj::StringPtr folder) {
  struct stat found;
  KJ_SYSCALL(stat(folder.cStr(), &found), folder);
  return {found.st_uid, found.st_gid};
}

// Only root can give a file away. A group that a user is not in does not matter: the group has no
// rights in these files.
void give(int fd, Owner owner, kj::StringPtr path) {
  if (geteuid() == 0) {
    KJ_SYSCALL(fchown(fd, owner.user, owner.group), path);
  } else if (fchown(fd, -1, owner.group) < 0 && errno != EPERM) {
    KJ_FAIL_SYSCALL("fchown", errno, path);
  }
}

void makeFolder(kj::StringPtr path, mode_t mode) {
  if (mkdir(path.cStr(), mode) < 0) {
    if (errno == EEXIST) return;
    KJ_FAIL_SYSCALL("mkdir", errno, path);
  }
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path);
  kj::AutoCloseFd folder(raw);
  if (geteuid() == 0) give(folder, ownerOfFolder(folderOf(path)), path);
  KJ_SYSCALL(fchmod(folder, mode), path);
}

}  // namespace

kj::String withoutLinks(kj::StringPtr path) {
  auto at = kj::str(path);
  for (unsigned links = 0; links < kMostLinks; ++links) {
    char target[4096];
    auto length = readlink(at.cStr(), target, sizeof target);
    if (length < 0) return at;  // not a link, or nothing
    auto text = kj::heapString(target, static_cast<size_t>(length));
    at = text.startsWith("/") ? kj::mv(text) : kj::str(folderOf(at), "/", text);
  }
  fail(ErrorKind::kInvalidArgument, kj::str(path, ": too many links"));
}

void makeUserFolders(kj::StringPtr path, mode_t mode) {
  for (size_t i = 1; i < path.size(); ++i) {
    if (path[i] == '/') makeFolder(kj::heapString(path.slice(0, i)), mode);
  }
}

void writeUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content) {
  auto real = withoutLinks(path);
  struct stat found;
  bool exists = stat(real.cStr(), &found) == 0;
  auto owner = exists ? Owner{found.st_uid, found.st_gid} : ownerOfFolder(folderOf(real));
  if (exists && geteuid() != 0 && owner.user != geteuid()) {
    fail(ErrorKind::kPermissionDenied,
         kj::str(real, " belongs to uid ", owner.user, "; use a file of your own"));
  }
  mode_t mode = exists ? found.st_mode & kOwnerOnly : kOwnerOnly;
  replaceFile(real, content, [&](int fd) {
    give(fd, owner, real);
    KJ_SYSCALL(fchmod(fd, mode), real);
  });
}

UserFileLock::UserFileLock(kj::StringPtr path) {
  KJ_ON_SCOPE_FAILURE(release());
  take(locks[0], path);
  auto real = withoutLinks(path);
  if (real != path) take(locks[1], real);
}

UserFileLock::~UserFileLock() noexcept {
  release();
}

void UserFileLock::release() {
  for (auto& lock : locks) {
    if (lock.size() > 0) unlink(lock.cStr());
    lock = nullptr;
  }
}

void UserFileLock::take(kj::String& lock, kj::StringPtr path) {
  auto name = kj::str(path, ".lock");
  int raw = open(name.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (raw < 0) {
    int error = errno;
    if (error == EEXIST) {
      fail(ErrorKind::kConflict, kj::str(name, " exists, so another program is changing ", path,
                                         "; retry, or remove the lock if none is"));
    }
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot create ", name, ": ", strerror(error)));
  }
  kj::AutoCloseFd file(raw);
  lock = kj::mv(name);
}

}  // namespace talos
