// Version numbers that outlive a reboot, of what the pods of the control plane are annotated with.
//
// The store forgets its versions when the machine reboots. A pod whose annotation says another
// number then is another pod to the kubelet, which would end it and start it again. So the number
// of each content is kept on STATE, with a hash of the content: the same content has the same
// number for ever, another one the next.
//
// A number is on the disk before anybody hears it, so after a crash at any line it is never lower
// than one that was heard while STATE was mounted. Where it is not they last as long as the brain.
// A file that cannot be read is told, and counting begins anew.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/map.h>

namespace talos::machined {

constexpr kj::StringPtr kKeptVersionsFile = "/system/state/kubernetes-versions"_kj;

struct KeptVersion {
  uint64_t version = 0;
  kj::String digest;
};
using KeptVersionMap = kj::TreeMap<kj::String, KeptVersion>;

// A line each: "kube-apiserver 5 <hex>". InvalidArgument for anything else.
KeptVersionMap readKeptVersions(kj::StringPtr text);
kj::String writeKeptVersions(const KeptVersionMap& versions);

class KeptVersions {
 public:
  struct Dependencies {
    // Runs what blocks where it holds up nobody.
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
