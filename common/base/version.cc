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

}  // namespace talos
