// A place for files by name outside of the cluster. Errors are Unavailable and say what the store
// answered; every call has deadlines of its own.
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
  // All names that begin with `prefix`, sorted.
  virtual kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) = 0;
  // The store has all of it, and has checked its hash, when this resolves; before that it shows
  // nothing of that name, or what it had.
  virtual kj::Promise<void> put(kj::StringPtr name, UploadFile file) = 0;
  // Absent is fine.
  virtual kj::Promise<void> remove(kj::StringPtr name) = 0;
};

}  // namespace talos::supervisor
