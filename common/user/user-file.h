// Files of a user that a command changes, possibly as root (sudo): they remain the user's.
//
// Files of the caller of sudo are accessed and made with the caller's rights (sudo-caller.h); all
// others with the process's own. Root gives no file to another user: files that it makes elsewhere
// are its own, a file of a third user is refused, and so is a link by which another user leads it
// to files that are not this user's.
//
// A file keeps its owner and its group, a link stays a link (its target is replaced), and
// afterwards only the owner can read the file. After a crash the file is the old or the new one.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <sys/types.h>

#include "common/user/sudo-caller.h"

namespace talos {

// Makes the absent folders above the path with this mode.
void makeUserFolders(kj::StringPtr path, mode_t mode);

// Reads like tryReadFile() (file.h).
kj::Maybe<kj::String> tryReadUserFile(kj::StringPtr path, size_t limit);

// Throws PermissionDenied if the file is another user's.
void writeUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content);

// Makes a new file. Throws Conflict if the name exists already, even as a link, whatever its
// target.
void createUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content);

// The lock that kubectl takes: PATH.lock, which exists while it is held. For a link, the lock of
// its target is taken too. After a crash the lock stays, and a user has to remove it. Throws
// Conflict naming an existing lock: kubectl does not wait either.
class UserFileLock {
 public:
  explicit UserFileLock(kj::StringPtr path);
  ~UserFileLock() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(UserFileLock);

 private:
  kj::Maybe<SudoCaller> holder;
  kj::String locks[2];  // empty if not held

  void take(kj::String& lock, kj::StringPtr path);
  void release();
};

}  // namespace talos
