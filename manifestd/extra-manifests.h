// Fetches the manifests that the config names by URL or contains, and publishes them as Manifests
// in the namespace `extras`; machined's rendered manifests are in the default namespace.
//
// Each manifest is fetched once, and again when its entry changes or this program restarts; until
// then the fetched text stays. A failure to fetch or to store one does not delay the others; it is
// reported without the secret parts of the URL, and retried after a second and then after up to a
// minute, or at once when the config names others. A manifest that the config no longer names is
// removed from the resources; its objects stay in the cluster. Nothing is written before the store
// has sent the wanted and the existing manifests. ManifestStatuses[manifests] in this namespace has
// the failures, for kubed, which creates the objects and reports both.
#pragma once

#include "common/base/backoff.h"
#include "common/base/signal.h"
#include "common/kube/manifest-objects.h"
#include "common/wire/store-client.h"
#include "manifestd/manifest-fetch.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::manifestd {

constexpr kj::StringPtr kOwner = "manifestd"_kj;  // owner of this program's records in the store

struct ManifestdDependencies {
  kj::Timer& timer;
  kj::Function<double()>& random;  // in [0,1)
  StoreClient& store;
};

class ExtraManifests {
 public:
  // `authorities`: PEM, for servers. All arguments outlive it.
  ExtraManifests(ManifestdDependencies deps, DialDependencies dialing,
                 kj::Function<kj::String()> authorities);
  KJ_DISALLOW_COPY_AND_MOVE(ExtraManifests);

  kj::Promise<void> run();  // runs until dropped
  // Returns the manifests that could not be fetched or stored, with errors; empty if all could.
  kj::StringPtr problem() const { return problems; }

 private:
  struct Entry {
    kj::String id, url, contents;
    bool isInline;
    kj::Vector<std::pair<kj::String, kj::String>> headers;
    kj::String state;  // all fields, to compare
  };
  struct Fetched {
    kj::String state, objects;
  };
  ManifestdDependencies deps;
  DialDependencies dialing;
  kj::Function<kj::String()> authorities;
  Backoff backoff;
  Signal changed;
  Watched<rpc::ControlPlaneConfigSpec> configs;
  Watched<rpc::ManifestSpec> existing;
  kj::TreeMap<kj::String, Fetched> fetched;  // by id
  kj::String problems;
  bool reported = false;                         // The status in the store has `problems`.
  kj::Maybe<kj::Own<TlsVerifier>> madeVerifier;  // exists while it is needed
  kj::Promise<void> publishing = kj::READY_NOW;  // newest publication

  kj::Vector<Entry> entries() const;
  kj::Promise<void> otherEntries(kj::ArrayPtr<const Entry> than);
  kj::Promise<bool> report();  // Resolves to true if the store has the status.
  // Fetches and publishes; returns the errors.
  kj::Promise<kj::Vector<kj::String>> bring(kj::ArrayPtr<const Entry> wanted);
  kj::Promise<kj::Maybe<kj::String>> fetch(const Entry& entry);  // Returns the error, if any.
  kj::Promise<void> publishNext(kj::ArrayPtr<const Entry> wanted);
  kj::Promise<void> publish(kj::ArrayPtr<const Entry> wanted);
  TlsVerifier& verifier();
};

}  // namespace talos::manifestd
