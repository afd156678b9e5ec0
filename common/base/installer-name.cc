#include "common/base/installer-name.h"

#include "common/base/version-data.h"  // made by cmake/version.cmake

namespace talos {

kj::StringPtr installerRepository() {
  auto published = kj::StringPtr(kVersionInstaller);
  return published.size() > 0 ? published : kUnpublishedInstaller;
}

kj::String installerImage() {
  return kj::str(installerRepository(), ":", kVersionTag);
}

bool isOwnInstaller(kj::StringPtr image) {
  for (auto repository : {installerRepository(), kUnpublishedInstaller, kFormerInstaller}) {
    if (image == kj::str(repository, ":", kVersionTag)) return true;
  }
  return false;
}

}  // namespace talos
