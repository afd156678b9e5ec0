// Restricts by Landlock which files a program may use: the program itself (to execute it), what is
// below the paths that are named; nothing else. As far as the kernel supports it, signals and
// abstract sockets are restricted too, and for a program that must not, to bind and to connect TCP.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::confine {

// Of each a file, or a folder with all that is below it.
struct LandlockPaths {
  kj::Vector<kj::String> read;       // files are read, folders listed
  kj::Vector<kj::String> write;      // and changed, made and removed; no devices are made, or asked
  kj::Vector<kj::String> list;       // folders are listed, and no file is read
  kj::Vector<kj::String> libraries;  // read, and the loader is executed
  kj::Vector<kj::String>
      devices;                   // read, written and asked; nodes of block devices made and removed
  kj::Vector<kj::String> asked;  // devices are read and asked, and not written

  bool empty() const {
    return read.empty() && write.empty() && list.empty() && libraries.empty() && devices.empty() &&
           asked.empty();
  }
};

class Landlock {
 public:
  // The version of the kernel's interface; 0: it has none.
  static int version();

  // Names all that a program is not kept from with this version; empty: this class restricts all.
  static kj::Array<kj::StringPtr> notRestricted(int version);

  // Opens the paths, so call it while they can be reached. Throws NotFound naming a path that is
  // not there.
  Landlock(kj::StringPtr program, const LandlockPaths& paths, bool withoutTcp = false);
  // Restricts this thread for good. Needs no-new-privileges.
  void enter();

 private:
  kj::AutoCloseFd ruleset;
  uint64_t handled;
  void allow(kj::StringPtr path, uint64_t access);
};

}  // namespace talos::confine
