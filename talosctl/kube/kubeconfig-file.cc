#include "talosctl/kube/kubeconfig-file.h"

#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/user-file.h"
#include "common/kube/json-yaml.h"
#include "common/memory/zeroize.h"
#include "common/tls/pki.h"

namespace talos::talosctl {
namespace {

constexpr mode_t kNewFolder = 0755;  // as kubectl
constexpr size_t kLargestKubeconfig = 4u << 20;

bool isFolder(kj::StringPtr path) {
  struct stat found;
  return stat(path.cStr(), &found) == 0 && S_ISDIR(found.st_mode);
}

kube::Json onlyDocument(kj::StringPtr text, kj::StringPtr file) {
  auto documents = kube::readYaml(text, file);
  if (documents.empty()) return nullptr;
  if (documents.size() > 1) {
    fail(ErrorKind::kInvalidArgument, kj::str(file, ": a kubeconfig must have one document"));
  }
  return kj::mv(documents[0]);
}

}  // namespace

kj::String kubeconfigPath(kj::StringPtr given, bool merge, kj::Maybe<kj::StringPtr> home) {
  auto path = kj::str(given);
  if (path.size() == 0 && merge) {
    KJ_IF_MAYBE (folder, home) return kj::str(*folder, "/.kube/config");
    fail(ErrorKind::kInvalidArgument, "HOME is not set; name the file of the kubeconfig");
  }
  if (path.size() == 0) path = kj::str(".");
  return isFolder(path) ? kj::str(path, path.endsWith("/") ? "" : "/", "kubeconfig") : kj::mv(path);
}

kj::Promise<StoredKubeconfig> storeKubeconfig(
    KubeconfigTarget target, kube::ReceivedKubeconfig received,
    kj::Function<kj::Promise<kube::MergeChoice>(const kube::MergeKind&, kj::StringPtr)> decide) {
  makeUserFolders(target.path, kNewFolder);
  UserFileLock lock(target.path);
  auto old = tryReadUserFile(target.path, kLargestKubeconfig);
  KJ_DEFER(KJ_IF_MAYBE (there, old) zeroize(there->asArray()));
  if (old != nullptr && !target.merge && !target.force) {
    fail(ErrorKind::kConflict,
         kj::str(target.path, " exists; use --force to replace it, or --merge"));
  }
  auto text = received.text();
  StoredKubeconfig stored;
  if (target.merge && (old != nullptr || target.contextName.size() > 0)) {
    kube::Json existing;
    KJ_IF_MAYBE (there, old) existing = onlyDocument(*there, target.path);
    kube::MergeOptions options{target.contextName, kj::mv(decide)};
    auto merged =
        co_await kube::mergeKubeconfig(kj::mv(existing), kj::mv(received), kj::mv(options));
    KJ_DEFER(kube::wipe(merged.config));
    text = pki::Pem(kube::writeYaml(merged.config));
    stored = {kj::mv(merged.renames), kj::mv(merged.replaced)};
  }
  writeUserFile(target.path, kj::StringPtr(text));
  co_return kj::mv(stored);
}

}  // namespace talos::talosctl
