// Keeps the version numbers with which the pods of the control plane are annotated over a reboot.
//
// The store forgets its versions when the machine reboots. A pod whose annotation has another
// number then is another pod to the kubelet, which would restart it. So the number of each content
// is stored on STATE, with a hash of the content: the same content keeps its number, another one
// gets the next.
//
// A number is on the disk before it is published, so after a crash at any line it is never lower
// than one that was published while STATE was mounted. Without STATE the numbers last as long as
// the brain. A file that cannot be read is logged, and counting restarts.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/vector.h>

namespace talos::machined {

constexpr kj::StringPtr kKeptVersionsFile = "/system/state/kubernetes-versions"_kj;

struct KeptVersion {
  uint64_t version = 0;
  kj::String digest;
};
using KeptVersionMap = kj::TreeMap<kj::String, KeptVersion>;

// One per line: "kube-apiserver 5 <hex>", and maybe what a later release has behind it. `unknown`:
// the lines that are anything else, which do not take the others with them.
KeptVersionMap readKeptVersions(kj::StringPtr text, kj::Vector<kj::String>& unknown);
kj::String writeKeptVersions(const KeptVersionMap& versions);

class KeptVersions {
 public:
  struct Dependencies {
    // Runs blocking work on the thread pool.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    kj::Function<bool()> isMounted;  // STATE
    kj::StringPtr file = kKeptVersionsFile;
  };
  explicit KeptVersions(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(KeptVersions);

  // The version of `name` with this content.
  kj::Promise<uint64_t> of(kj::StringPtr name, kj::ArrayPtr<const kj::byte> content);

 private:
  Dependencies deps;
  bool loaded = false;
  KeptVersionMap versions;
  kj::ForkedPromise<void> last = kj::Promise<void>(kj::READY_NOW).fork();

  kj::Promise<void> load();
  kj::Promise<void> save();
  kj::Promise<void> count(kj::StringPtr name, kj::String digest);
};

}  // namespace talos::machined
