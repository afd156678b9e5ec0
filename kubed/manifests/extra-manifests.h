// The manifests that the config names by URL, or has in it: Manifests in the namespace `extras`;
// those that machined renders are in the other one.
//
// Each is fetched once, and again when its entry changes or this program was started anew; until
// then what was fetched before stays. A failure, of fetching or of storing, is told with what of
// its URL may be shown, holds up no other one, and is tried again, after a second and then after up
// to a minute, or at once when the config names others. Those that the config does not name any
// more go from the resources; in the cluster they stay. Nothing is written before the store has
// told what is wanted and what is there.
#pragma once

#include "kubed/manifests/manifest-fetch.h"
#include "kubed/manifests/manifest-reconciler.h"

namespace talos::kubed {

class ExtraManifests {
 public:
  // `authorities`: PEM, of servers. All outlive it.
  ExtraManifests(KubedWorld world, kube::DialDependencies deps,
                 kj::Function<kj::String()> authorities)
      : world(world),
        deps(deps),
        authorities(kj::mv(authorities)),
        backoff({.first = 1 * kj::SECONDS,
                 .longest = 1 * kj::MINUTES,
                 .chance0 = 0.75,
                 .chance1 = 1.25}) {}
  KJ_DISALLOW_COPY_AND_MOVE(ExtraManifests);

  kj::Promise<void> run();  // until dropped
  // What could not be fetched or stored, and why; empty: nothing.
  kj::StringPtr problem() const { return problems; }

 private:
  struct Entry {
    kj::String id, url, contents;
    bool isInline;
    kj::Vector<std::pair<kj::String, kj::String>> headers;
    kj::String state;  // of all that it says
  };
  struct Fetched {
    kj::String state, objects;
  };
  KubedWorld world;
  kube::DialDependencies deps;
  kj::Function<kj::String()> authorities;
  Backoff backoff;
  kj::TreeMap<kj::String, Fetched> fetched;  // by id
  kj::String problems;
  kj::Maybe<kj::Own<TlsVerifier>> madeVerifier;  // while it is needed
  kj::Promise<void> publishing = kj::READY_NOW;  // the newest

  kj::Vector<Entry> entries() const;
  kj::Promise<void> otherEntries(kj::ArrayPtr<const Entry> than);
  // Fetches and publishes; what went wrong.
  kj::Promise<kj::Vector<kj::String>> bring(kj::ArrayPtr<const Entry> wanted);
  kj::Promise<kj::Maybe<kj::String>> fetch(const Entry& entry);  // why it could not be
  kj::Promise<void> publishNext(kj::ArrayPtr<const Entry> wanted);
  kj::Promise<void> publish(kj::ArrayPtr<const Entry> wanted);
  TlsVerifier& verifier();
};

}  // namespace talos::kubed
