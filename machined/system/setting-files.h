// Files by which the kernel shows and takes settings: below /proc/sys and /sys.
//
// Names are resolved beneath the folder by openat2(2); no link leads out of it. A file is never
// made. FailedPrecondition has the kernel's error, NotFound the text that the owner gives.
#pragma once

#include <kj/string.h>

#include "machined/system/system-tree.h"

namespace talos::machined {

// Returns the text to write: the value and a line break. A write of 0 bytes would keep the file's
// old value.
kj::String lineOf(kj::StringPtr value);

class SettingFiles {
 public:
  // `links` is kNone or kBeneath.
  SettingFiles(kj::StringPtr folder, Links links, kj::StringPtr missing)
      : tree(openTree(folder)), links(links), missing(missing) {}

  void write(kj::StringPtr path, kj::StringPtr value) const;
  // Returns nullptr if the file does not exist, or can only be written.
  kj::Maybe<kj::String> tryRead(kj::StringPtr path) const;
  bool has(kj::StringPtr path) const;

 private:
  kj::AutoCloseFd tree;
  Links links;
  kj::StringPtr missing;

  kj::AutoCloseFd open(kj::StringPtr path, int flags) const;
};

}  // namespace talos::machined
