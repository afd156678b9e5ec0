// The user who runs a command as root by sudo(8): files of that user are reached with that user's
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

// Of SUDO_UID, SUDO_GID and SUDO_USER, with the groups of /etc/group; none when this process is not
// root's, or when root itself ran sudo.
kj::Maybe<SudoCaller> sudoCaller();

// The caller when the path belongs to it: the file, or if there is none, the nearest folder above
// that exists. None: the process acts as itself. Nothing is looked up with root's rights.
kj::Maybe<SudoCaller> sudoCallerWhoOwns(kj::StringPtr path);

// While it exists, this thread reaches files with the rights of the caller, if there is one, and
// what it makes belongs to the caller. Not to be held across a co_await.
class ActAs {
 public:
  explicit ActAs(const kj::Maybe<SudoCaller>& caller);
  ~ActAs() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(ActAs);

 private:
  bool changed = false;
  gid_t group = 0;
  kj::Vector<gid_t> groups;  // to return to

  void restore();
};

}  // namespace talos
