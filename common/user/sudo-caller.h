// The user who runs a command as root by sudo(8). Files of this user are accessed with this user's
// rights, so that a path that the user controls leads root nowhere the user could not go.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/types.h>

namespace talos {

struct SudoCaller {
  uid_t user;
  gid_t group;
  kj::Vector<gid_t> groups;  // supplementary
};

// Returns the caller from SUDO_UID, SUDO_GID and SUDO_USER, with the groups of /etc/group; nullptr
// if this process is not root's, or if root itself ran sudo.
kj::Maybe<SudoCaller> sudoCaller();

// Returns the caller if the path belongs to the caller: the file, or if it does not exist, the
// nearest existing folder above. nullptr: the process acts as itself. Nothing is looked up with
// root's rights.
kj::Maybe<SudoCaller> sudoCallerWhoOwns(kj::StringPtr path);

// While it exists, this thread accesses files with the rights of the caller, if there is one, and
// files that it makes belong to the caller. It must not be held across a co_await.
class ActAs {
 public:
  explicit ActAs(const kj::Maybe<SudoCaller>& caller);
  ~ActAs() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(ActAs);

 private:
  bool changed = false;
  gid_t group = 0;
  kj::Vector<gid_t> groups;  // groups to restore

  void restore();
};

}  // namespace talos
