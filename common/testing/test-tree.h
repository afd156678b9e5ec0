// A temporary directory with files in it, removed at the end; for the tests of this folder.
#pragma once

#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"

namespace talos::machined {

class TestTree {
 public:
  TestTree() {
    char pattern[] = "/tmp/api-test-XXXXXX";
    KJ_ASSERT(mkdtemp(pattern) != nullptr);
    root = kj::str(pattern);
  }
  // Threads of a pool may be about to create their last file there.
  ~TestTree() noexcept {
    for (int attempt = 0; attempt < 100; ++attempt) {
      if (kj::runCatchingExceptions([this] { removeTree(root); }) == nullptr) return;
    }
  }

  kj::String at(kj::StringPtr relative) const { return kj::str(root, '/', relative); }
  void directory(kj::StringPtr relative, mode_t mode = 0755) {
    makeDirectories(at(relative), mode);
  }
  void file(kj::StringPtr relative, kj::StringPtr content, mode_t mode = 0644) {
    writeFileAtomically(at(relative), content, mode);
  }
  void link(kj::StringPtr relative, kj::StringPtr target) {
    KJ_SYSCALL(symlink(target.cStr(), at(relative).cStr()));
  }

  kj::String root;
};

}  // namespace talos::machined
