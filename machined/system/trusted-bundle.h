// The bundle of public CAs of the running system: the image's file with what machine.files and the
// TrustedRootsConfigs append. The boot's task writeUserFiles writes it first (user-files.h); later
// changes of the documents act at once. A process that has read the bundle keeps what it read.
#pragma once

#include <kj/mutex.h>

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

  // Makes the bundle that these files of a config want, and leaves the other files alone. Returns
  // the entries that were not done, as writeUserFiles() does. Blocks; any thread may call it.
  kj::Vector<kj::String> apply(kj::ArrayPtr<const UserFile> files);

 private:
  Mounts& mounts;
  const UserFileProblems& boot;
  kj::StringPtr root;
  kj::MutexGuarded<bool> writing{false};  // one caller at a time
};

}  // namespace talos::machined
