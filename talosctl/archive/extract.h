// Unpacks a gzip'd tar from a node below a directory, trusting nothing in it.
//
// Nothing outside of the directory is ever written: names are checked (safePath), each part of a
// path is opened without following links, links are created but never walked through, a file or
// link is made only where there was nothing, and set-uid bits, devices and pipes are left out. An
// incomplete file is removed when this is dropped.
#pragma once

#include <kj/io.h>
#include <kj/memory.h>

#include "common/tar/tar-reader.h"

namespace talos::talosctl {

class Extractor {
 public:
  // `directory` is created when it is absent; throws FailedPrecondition when it is something else.
  explicit Extractor(kj::StringPtr directory);
  ~Extractor() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Extractor);

  // Throws: InvalidArgument for a broken archive, PermissionDenied for a name that leads outside,
  // Conflict for a file that exists.
  void feed(kj::ArrayPtr<const kj::byte> compressed);
  // After the last byte: sets the permissions of directories. Throws when the archive is truncated.
  void finish();

  // Entries that were left out, and why.
  kj::ArrayPtr<const kj::String> skipped() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::talosctl
