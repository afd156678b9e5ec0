// A path on which nobody can exchange a folder for a link any more, for root, who may write
// everywhere: the folders are opened one by one, and what was opened is what was checked.
#pragma once

#include <kj/exception.h>
#include <kj/io.h>
#include <kj/string.h>

namespace talos {

class PinnedPath {
 public:
  // Links are followed, of the last part with `last` only, those of root anywhere, those of another
  // user to what belongs to that user; otherwise PermissionDenied names the link. Without the last
  // part there need not be anything.
  PinnedPath(kj::StringPtr path, bool last);

  // For system calls, while this exists.
  kj::StringPtr usable() const { return through; }
  // For people.
  kj::String shown() const;
  // The error of a system call, with the path as people know it.
  kj::Exception readable(kj::Exception&& e) const;

 private:
  kj::AutoCloseFd folder;
  kj::String name, through;
};

}  // namespace talos
