// Files of a user that a command changes, maybe as root (sudo): they stay the user's.
//
// A file keeps its owner and its group, a link stays a link (what it leads to is replaced), and
// nobody but the owner can read it afterwards. A new file or folder belongs to the owner of the
// folder that it is made in. After a crash the old file or the new one is there.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <sys/types.h>

namespace talos {

// Where the links of a path lead to, its last part too, whether there is a file or not.
kj::String withoutLinks(kj::StringPtr path);

// The folders above it, those that are absent with this mode.
void makeUserFolders(kj::StringPtr path, mode_t mode);

// Throws PermissionDenied when the file is another user's and this process is not root's.
void writeUserFile(kj::StringPtr path, kj::ArrayPtr<const char> content);

// The lock that kubectl takes: PATH.lock, which exists while it is held. Of a link also that of the
// file it leads to. After a crash it stays, and somebody has to remove it. Conflict names the lock
// when it is there: kubectl does not wait either.
class UserFileLock {
 public:
  explicit UserFileLock(kj::StringPtr path);
  ~UserFileLock() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(UserFileLock);

 private:
  kj::String locks[2];  // empty: not held

  void take(kj::String& lock, kj::StringPtr path);
  void release();
};

}  // namespace talos
