// A path on which no folder can be exchanged for a link any more, for root, which may write
// everywhere: the folders are opened one by one, so the opened folders are the checked ones.
#pragma once

#include <kj/exception.h>
#include <kj/io.h>
#include <kj/string.h>

namespace talos {

class PinnedPath {
 public:
  // Follows links: the last part's only with `last`, root's anywhere, and another user's only to
  // files and folders of this user; otherwise throws PermissionDenied naming the link. Without
  // `last`, the last part need not exist.
  PinnedPath(kj::StringPtr path, bool last);

  // Returns the path for system calls, valid while this object exists.
  kj::StringPtr usable() const { return through; }
  // Returns the path for users.
  kj::String shown() const;
  // Returns the error of a system call, with the path as users know it.
  kj::Exception readable(kj::Exception&& e) const;

 private:
  kj::AutoCloseFd folder;
  kj::String name, through;
};

}  // namespace talos
