// Keeps the version numbers with which the pods of the control plane are annotated across a reboot.
//
// The store forgets its versions when the machine reboots. A pod whose annotation then has another
// number is another pod to the kubelet, which would restart it. So the number of each content is
// stored on STATE, with a hash of the content: the same content keeps its number, other content
// gets the next.
//
// A number is on the disk before it is published, so after a crash at any line it is never lower
// than a number that was published while STATE was mounted. Without STATE the numbers last as long
// as the brain. A file that cannot be read is logged, and counting restarts.
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

// Reads a version per line: "kube-apiserver 5 <hex>", perhaps followed by fields of a later
// release. `unknown`: the other lines, which do not invalidate the rest.
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

  // Returns the version of `name` with this content.
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
