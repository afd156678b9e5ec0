// The bundle of public CAs of the running system: the image's file with what machine.files and the
// TrustedRootsConfigs append. The boot's task writeUserFiles writes it first (user-files.h); later
// changes of the documents act at once. A process that has read the bundle keeps what it read.
#pragma once

#include <kj/time.h>

#include "machined/system/user-files.h"

namespace talos::machined {

class TrustedBundle {
 public:
  // `boot` knows whether this boot has written the files. `root` is "" but in tests. The arguments
  // must outlive this.
  TrustedBundle(Mounts& mounts, const UserFileProblems& boot, kj::StringPtr root = "")
      : mounts(mounts), boot(boot), root(root) {}
  KJ_DISALLOW_COPY_AND_MOVE(TrustedBundle);

  // Returns false before the boot has written the files of the config.
  bool begun() const { return boot.known(); }

  // Returns the number of the next change. Called on the loop when the files are read from the
  // config, because the threads that write them may overtake each other.
  uint64_t nextChange() { return ++changes; }

  // Makes the bundle that these files of a config want, and leaves the other files alone. Returns
  // the entries that were not done, as writeUserFiles() does. Does nothing after a later change.
  // Blocks; any thread may call it. Unavailable if another thread writes files for longer than
  // `limit`.
  kj::Vector<kj::String> apply(uint64_t change, kj::ArrayPtr<const UserFile> files,
                               kj::Duration limit = 2 * kj::SECONDS);

 private:
  Mounts& mounts;
  const UserFileProblems& boot;
  kj::StringPtr root;
  uint64_t changes = 0;
  uint64_t written = 0;  // the last written change, guarded by boot.writing
};

// Returns the bundle of the image with these texts appended, whatever the boot has written until
// now: for connections that are made before it can write files. Blocks; any thread may call it.
kj::String bundleWith(Mounts& mounts, kj::ArrayPtr<const kj::String> certificates,
                      kj::StringPtr root = "");

}  // namespace talos::machined
