// Restricts by Landlock which files a program may use: the program itself (to execute it), what is
// below the read paths, what is below the write paths; nothing else. As far as the kernel supports
// it, signals and abstract sockets are restricted too.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::confine {

class Landlock {
 public:
  // The version of the kernel's interface; 0: it has none.
  static int version();

  // Opens the paths, so call it while they can be reached. Throws NotFound naming a path that is
  // not there.
  Landlock(kj::StringPtr program, kj::ArrayPtr<const kj::String> read,
           kj::ArrayPtr<const kj::String> write);
  // Restricts this thread for good. Needs no-new-privileges.
  void enter();

 private:
  kj::AutoCloseFd ruleset;
  uint64_t handled;
  void allow(kj::StringPtr path, uint64_t access);
};

}  // namespace talos::confine
