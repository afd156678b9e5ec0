// Files of a user that a command changes, maybe as root (sudo): they stay the user's.
//
// Files of the caller of sudo are reached and made with the caller's rights (sudo-caller.h);
// everything else with the process's own. Root gives nothing away: what it makes elsewhere is its
// own, a file of a third user is refused, and so is a link by which another user leads it to files
// that are not that user's.
//
// A file keeps its owner and its group, a link stays a link (what it leads to is replaced), and
// nobody but the owner can read it afterwards. After a crash the old file or the new one is there.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <sys/types.h>

#include "common/user/sudo-caller.h"

namespace talos {

// Where the links of a path lead to, its last part too, whether there is a file or not.
kj::String withoutLinks(kj::StringPtr path);

// The folders above it, those that are absent with this mode.
void makeUserFolders(kj::StringPtr path, mode_t mode);

// As tryReadFile() (file.h).
kj::Maybe<kj::String> tryReadUserFile(kj::StringPtr path, size_t limit);

// Throws PermissionDenied when the file is another user's.
void writeUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content);

// Makes a new file. Conflict when there is anything of this name, a link too, whatever it leads to.
void createUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content);

// The lock that kubectl takes: PATH.lock, which exists while it is held. Of a link also that of the
// file it leads to. After a crash it stays, and somebody has to remove it. Conflict names the lock
// when it is there: kubectl does not wait either.
class UserFileLock {
 public:
  explicit UserFileLock(kj::StringPtr path);
  ~UserFileLock() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(UserFileLock);

 private:
  kj::Maybe<SudoCaller> holder;
  kj::String locks[2];  // empty: not held

  void take(kj::String& lock, kj::StringPtr path);
  void release();
};

}  // namespace talos
