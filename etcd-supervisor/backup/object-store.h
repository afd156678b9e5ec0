// A place outside the cluster for files by name. Errors are Unavailable with the store's answer;
// every call has its own deadlines.
#pragma once

#include <kj/async.h>
#include <kj/vector.h>

#include "common/base/disk-thread.h"

namespace talos::supervisor {

// A file on the disk that can be read from its beginning.
struct UploadFile {
  QueuedFile file;
  uint64_t size;
  kj::String sha256;  // in hexadecimal
};

class ObjectStore {
 public:
  virtual ~ObjectStore() noexcept(false) = default;
  // Returns all names that begin with `prefix`, sorted.
  virtual kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) = 0;
  // Stores a file. Resolves when the store has all of it, and has checked its hash; before that the
  // store shows no file of this name, or the old one.
  virtual kj::Promise<void> put(kj::StringPtr name, UploadFile file) = 0;
  // Removes a file, which may be absent.
  virtual kj::Promise<void> remove(kj::StringPtr name) = 0;
};

}  // namespace talos::supervisor
