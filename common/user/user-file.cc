#include "common/user/user-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/user/pinned-path.h"

namespace talos {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr unsigned kMostLinks = 40;  // as the kernel

// Returns the target as the link has it; nullptr if there is no link.
kj::Maybe<kj::String> targetOf(kj::StringPtr link) {
  char target[4096];
  auto length = readlink(link.cStr(), target, sizeof target);
  if (length < 0) return nullptr;
  auto text = kj::heapString(target, static_cast<size_t>(length));
  return text.startsWith("/") ? kj::mv(text) : kj::str(folderOf(link), "/", text);
}

[[noreturn]] void failTooManyLinks(kj::StringPtr path) {
  fail(ErrorKind::kInvalidArgument, kj::str(path, ": too many links"));
}

kj::String followLinks(kj::StringPtr path) {
  auto at = kj::str(path);
  for (unsigned links = 0; links < kMostLinks; ++links) {
    KJ_IF_MAYBE (target, targetOf(at)) {
      at = kj::mv(*target);
    } else {
      return at;
    }
  }
  failTooManyLinks(path);
}

// Refuses another user's links, except those that lead to this user's own files and folders, for
// root.
void refuseForeignLinks(kj::StringPtr path, unsigned links = 0) {
  if (links > kMostLinks) failTooManyLinks(path);
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i < path.size() && path[i] != '/') continue;
    auto part = kj::heapString(path.slice(0, i));
    struct stat link, target;
    if (lstat(part.cStr(), &link) < 0) return;  // the rest does not exist, so it has no links
    if (!S_ISLNK(link.st_mode)) continue;
    bool own = stat(part.cStr(), &target) == 0 && target.st_uid == link.st_uid;
    if (link.st_uid != 0 && !own) {
      fail(ErrorKind::kPermissionDenied,
           kj::str(part, " is a link of uid ", link.st_uid,
                   ", which root does not follow; name the file that it leads to"));
    }
    KJ_IF_MAYBE (next, targetOf(part)) refuseForeignLinks(*next, links + 1);
  }
}

// Returns whose rights to use for a change of the file: the sudo caller's for the caller's file,
// nullptr for the process's own.
kj::Maybe<SudoCaller> whoChanges(kj::StringPtr path) {
  auto caller = sudoCallerWhoOwns(path);
  if (caller == nullptr && geteuid() == 0) refuseForeignLinks(path);
  return caller;
}

// Keeps the group of a file. A group of which a user is not a member does not matter: it has no
// rights in these files. Some file systems have no groups at all.
void keepGroup(int fd, gid_t group, kj::StringPtr path, bool root) {
  struct stat now;
  KJ_SYSCALL(fstat(fd, &now), path);
  if (now.st_gid == group || fchown(fd, -1, group) == 0) return;
  bool harmless = errno == EPERM || errno == EINVAL || errno == ENOSYS;
  if (root || !harmless) KJ_FAIL_SYSCALL("fchown", errno, path);
}

void makeFolder(kj::StringPtr path, mode_t mode) {
  if (mkdir(path.cStr(), mode) < 0) {
    if (errno == EEXIST) return;
    KJ_FAIL_SYSCALL("mkdir", errno, path);
  }
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path);
  kj::AutoCloseFd folder(raw);
  KJ_SYSCALL(fchmod(folder, mode), path);
}

// Acts with root's rights: `work` gets a path whose folders cannot be exchanged.
void asRoot(kj::StringPtr path, bool followLast,
            kj::FunctionParam<void(kj::StringPtr usable, kj::StringPtr shown)> work) {
  PinnedPath pinned(path, followLast);
  auto shown = followLast ? pinned.shown() : kj::str(path);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { work(pinned.usable(), shown); })) {
    kj::throwFatalException(pinned.readable(kj::mv(*e)));
  }
}

}  // namespace

void makeUserFolders(kj::StringPtr path, mode_t mode) {
  auto caller = whoChanges(path);
  bool root = caller == nullptr && geteuid() == 0;
  ActAs acting(caller);
  for (size_t i = 1; i < path.size(); ++i) {
    if (path[i] != '/') continue;
    auto folder = kj::heapString(path.slice(0, i));
    if (folder == "." || folder == ".." || folder.endsWith("/..")) continue;
    if (root) {
      asRoot(folder, false, [&](kj::StringPtr usable, kj::StringPtr) { makeFolder(usable, mode); });
    } else {
      makeFolder(folder, mode);
    }
  }
}

kj::Maybe<kj::String> tryReadUserFile(kj::StringPtr path, size_t limit) {
  auto caller = sudoCaller();
  if (caller == nullptr) return tryReadFile(path, limit);
  kj::Maybe<kj::String> content;
  auto failed = kj::runCatchingExceptions([&]() {
    ActAs acting(caller);
    content = tryReadFile(path, limit);
  });
  KJ_IF_MAYBE (e, failed) {
    if (kindOf(*e) != ErrorKind::kPermissionDenied) kj::throwFatalException(kj::mv(*e));
    refuseForeignLinks(path);
    return tryReadFile(path, limit);  // root's own
  }
  return content;
}

namespace {

void replaceUserFile(kj::StringPtr path, kj::StringPtr shown, uid_t user,
                     kj::ArrayPtr<const char> content) {
  struct stat found;
  bool exists = lstat(path.cStr(), &found) == 0;
  if (!exists && errno != ENOENT) KJ_FAIL_SYSCALL("stat", errno, path);
  if (exists && found.st_uid != user) {
    fail(ErrorKind::kPermissionDenied,
         kj::str(shown, " belongs to uid ", found.st_uid, "; use a file of your own"));
  }
  mode_t mode = exists ? found.st_mode & kOwnerOnly : kOwnerOnly;
  replaceFile(path, content, [&](int fd) {
    if (exists) keepGroup(fd, found.st_gid, path, user == 0);
    KJ_SYSCALL(fchmod(fd, mode), path);
  });
}

void createFile(kj::StringPtr path, kj::StringPtr shown, kj::ArrayPtr<const char> content) {
  int raw = open(path.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  if (raw < 0) {
    if (errno == EEXIST) fail(ErrorKind::kConflict, kj::str(shown, " already exists"));
    KJ_FAIL_SYSCALL("open", errno, path);
  }
  kj::AutoCloseFd file(raw);
  KJ_ON_SCOPE_FAILURE(unlink(path.cStr()));
  kj::FdOutputStream(file.get()).write(content.begin(), content.size());
  KJ_SYSCALL(fchmod(file, kOwnerOnly), path);
  KJ_SYSCALL(fsync(file), path);
  syncFolder(folderOf(path));
}

}  // namespace

void writeUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content) {
  auto caller = whoChanges(path);
  uid_t user = geteuid();
  KJ_IF_MAYBE (other, caller) user = other->user;
  if (user == 0) {
    return asRoot(path, true, [&](kj::StringPtr usable, kj::StringPtr shown) {
      replaceUserFile(usable, shown, user, content);
    });
  }
  ActAs acting(caller);
  auto real = followLinks(path);
  replaceUserFile(real, real, user, content);
}

void createUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content) {
  auto caller = whoChanges(folderOf(path));
  if (caller == nullptr && geteuid() == 0) {
    return asRoot(path, false, [&](kj::StringPtr usable, kj::StringPtr shown) {
      createFile(usable, shown, content);
    });
  }
  ActAs acting(caller);
  createFile(path, path, content);
}

UserFileLock::UserFileLock(kj::StringPtr path) : holder(whoChanges(path)) {
  KJ_ON_SCOPE_FAILURE(release());
  ActAs acting(holder);
  take(locks[0], path);
  auto real = followLinks(path);
  if (real != path) take(locks[1], real);
}

UserFileLock::~UserFileLock() noexcept {
  release();
}

void UserFileLock::release() {
  ActAs acting(holder);
  for (auto& lock : locks) {
    if (lock.size() > 0) unlink(lock.cStr());
    lock = nullptr;
  }
}

void UserFileLock::take(kj::String& lock, kj::StringPtr path) {
  auto name = kj::str(path, ".lock");
  int raw = open(name.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
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
