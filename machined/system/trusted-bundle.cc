#include "machined/system/trusted-bundle.h"

#include <fcntl.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "machined/system/system-tree.h"

namespace talos::machined {
namespace {

constexpr size_t kLargestBundle = 16u << 20;

}  // namespace

kj::Vector<kj::String> TrustedBundle::apply(uint64_t change, kj::ArrayPtr<const UserFile> files,
                                            kj::Duration limit) {
  auto lock = boot.writing.lockExclusiveWithTimeout(limit);
  if (lock == nullptr)
    fail(ErrorKind::kUnavailable, "another thread still writes files of the config");
  if (change < written) return {};
  written = change;
  return writeImageFile(root, mounts, kAuthoritiesBundle, files).problems;
}

kj::String bundleWith(Mounts& mounts, kj::ArrayPtr<const kj::String> certificates,
                      kj::StringPtr root) {
  auto parts = split(kAuthoritiesBundle.slice(1));
  auto tree = openTree(root.size() == 0 ? "/"_kj : root);
  KJ_IF_MAYBE (folder, tryOpen(tree, parts.directory, O_RDONLY | O_DIRECTORY, Links::kInRoot)) {
    auto pristine = mounts.withoutMounts(*folder);
    KJ_IF_MAYBE (file, tryOpen(pristine, parts.name, O_RDONLY, Links::kNone)) {
      auto bundle = readAll(*file, kLargestBundle);
      return kj::str(bundle, certificates.size() > 0 ? "\n" : "", kj::strArray(certificates, "\n"));
    }
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str("TLS needs trusted CAs: there is no ", kAuthoritiesBundle));
}

}  // namespace talos::machined
