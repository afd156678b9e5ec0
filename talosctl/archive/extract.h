// Unpacks a gzip'd tar from a node below a directory, without trust in its content.
//
// Nothing outside the directory is ever written: names are checked (safePath), each part of a path
// is opened without following links, links are created but never followed, a file or link is
// created only if nothing exists at its path, and set-uid bits, devices and pipes are left out. The
// destructor removes an incomplete file.
#pragma once

#include <kj/io.h>
#include <kj/memory.h>

#include "common/tar/tar-reader.h"

namespace talos::talosctl {

class Extractor {
 public:
  // Creates `directory` if it does not exist; throws FailedPrecondition if the path is something
  // else.
  explicit Extractor(kj::StringPtr directory);
  ~Extractor() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Extractor);

  // Throws InvalidArgument for a broken archive, PermissionDenied for a name that leads outside,
  // Conflict for an existing file.
  void feed(kj::ArrayPtr<const kj::byte> compressed);
  // Must be called after the last byte: sets the permissions of directories. Throws if the archive
  // is truncated.
  void finish();

  // Returns the entries that were left out, with reasons.
  kj::ArrayPtr<const kj::String> skipped() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::talosctl
