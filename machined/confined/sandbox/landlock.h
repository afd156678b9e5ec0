// Restricts by Landlock which files a program may use: the program itself (to execute it),
// everything below the named paths; nothing else. As far as the kernel supports it, signals and
// abstract sockets are restricted too, and, if requested, binding and connecting TCP.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::confine {

// Paths: each is a file, or a folder with everything below it.
struct LandlockPaths {
  kj::Vector<kj::String> read;  // files are read, folders listed
  kj::Vector<kj::String>
      write;  // like read, and changed, made and removed; no devices are made, or used by ioctl()
  kj::Vector<kj::String> list;       // folders are listed, and no file is read
  kj::Vector<kj::String> libraries;  // read, and the loader is executed
  kj::Vector<kj::String>
      devices;  // read, written and used by ioctl(); nodes of block devices made and removed
  kj::Vector<kj::String> asked;  // devices are read and used by ioctl(), and not written

  bool empty() const {
    return read.empty() && write.empty() && list.empty() && libraries.empty() && devices.empty() &&
           asked.empty();
  }
};

class Landlock {
 public:
  // Returns the version of the kernel's interface; 0 if the kernel has no Landlock.
  static int version();

  // Names all restrictions that this version lacks; empty if all are supported.
  static kj::Array<kj::StringPtr> notRestricted(int version);

  // Opens the paths, so call it while they can be reached. Throws NotFound naming a path that does
  // not exist.
  Landlock(kj::StringPtr program, const LandlockPaths& paths, bool withoutTcp = false);
  // Restricts this thread for good. Needs no-new-privileges.
  void enter();

 private:
  kj::AutoCloseFd ruleset;
  uint64_t handled;
  void allow(kj::StringPtr path, uint64_t access);
};

}  // namespace talos::confine
