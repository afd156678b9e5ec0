#include "machined/system/trusted-bundle.h"

#include "common/base/node-layout.h"

namespace talos::machined {

kj::Vector<kj::String> TrustedBundle::apply(kj::ArrayPtr<const UserFile> files) {
  auto lock = writing.lockExclusive();
  return writeImageFile(root, mounts, kAuthoritiesBundle, files).problems;
}

}  // namespace talos::machined
