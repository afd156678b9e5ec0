#include "common/base/version.h"

#include "common/base/version-data.h"  // made by cmake/version.cmake

namespace talos {

BuildVersion buildVersion() {
#if defined(__aarch64__)
  constexpr kj::StringPtr kArch = "arm64"_kj;
#else
  constexpr kj::StringPtr kArch = "amd64"_kj;
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
  constexpr const char* kCompiler =
      "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__);
  return {kVersionTag, kVersionSha, kVersionBuilt, kCompiler, "linux", kArch};
}

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
