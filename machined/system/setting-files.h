// Files by which the kernel shows and takes settings: below /proc/sys and /sys.
//
// Names are resolved beneath the folder by openat2(2); no link leads out of it. A file is never
// made. FailedPrecondition has the kernel's cause, NotFound the text that the owner gives.
#pragma once

#include <kj/string.h>

#include "machined/system/system-tree.h"

namespace talos::machined {

// Returns the text to write: the value and the end of the line. A write of no bytes would leave the
// old value in the file.
kj::String lineOf(kj::StringPtr value);

class SettingFiles {
 public:
  // `links` is kNone or kBeneath.
  SettingFiles(kj::StringPtr folder, Links links, kj::StringPtr missing)
      : tree(openTree(folder)), links(links), missing(missing) {}

  void write(kj::StringPtr path, kj::StringPtr value) const;
  // None: it is not there, or can be written only.
  kj::Maybe<kj::String> tryRead(kj::StringPtr path) const;
  bool has(kj::StringPtr path) const;

 private:
  kj::AutoCloseFd tree;
  Links links;
  kj::StringPtr missing;

  kj::AutoCloseFd open(kj::StringPtr path, int flags) const;
};

}  // namespace talos::machined
