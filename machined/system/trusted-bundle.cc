#include "machined/system/trusted-bundle.h"

#include "common/base/error.h"
#include "common/base/node-layout.h"

namespace talos::machined {

kj::Vector<kj::String> TrustedBundle::apply(uint64_t change, kj::ArrayPtr<const UserFile> files,
                                            kj::Duration limit) {
  auto lock = boot.writing.lockExclusiveWithTimeout(limit);
  if (lock == nullptr)
    fail(ErrorKind::kUnavailable, "another thread still writes files of the config");
  if (change < written) return {};
  written = change;
  return writeImageFile(root, mounts, kAuthoritiesBundle, files).problems;
}

}  // namespace talos::machined
