// Fetches the manifests that the config names by URL or contains, and publishes them as Manifests
// in the namespace `extras`; those that machined renders are in the default one.
//
// Each is fetched once, and again when its entry changes or this program restarts; until then the
// fetched text stays. A failure to fetch or to store one does not delay the others; it is reported
// without the secret parts of the URL, and retried after a second and then after up to a minute, or
// at once when the config names others. A manifest that the config no longer names is removed from
// the resources; its objects stay in the cluster. Nothing is written before the store has sent the
// wanted and the existing manifests.
#pragma once

#include "kubed/manifests/manifest-fetch.h"
#include "kubed/manifests/manifest-reconciler.h"

namespace talos::kubed {

class ExtraManifests {
 public:
  // `authorities`: PEM, of servers. All outlive it.
  ExtraManifests(KubedDependencies deps, kube::DialDependencies dialing,
                 kj::Function<kj::String()> authorities)
      : deps(deps),
        dialing(dialing),
        authorities(kj::mv(authorities)),
        backoff({.first = 1 * kj::SECONDS,
                 .longest = 1 * kj::MINUTES,
                 .chance0 = 0.75,
                 .chance1 = 1.25}) {}
  KJ_DISALLOW_COPY_AND_MOVE(ExtraManifests);

  kj::Promise<void> run();  // until dropped
  // The manifests that could not be fetched or stored, with errors; empty: none.
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
  KubedDependencies deps;
  kube::DialDependencies dialing;
  kj::Function<kj::String()> authorities;
  Backoff backoff;
  kj::TreeMap<kj::String, Fetched> fetched;  // by id
  kj::String problems;
  kj::Maybe<kj::Own<TlsVerifier>> madeVerifier;  // while it is needed
  kj::Promise<void> publishing = kj::READY_NOW;  // the newest

  kj::Vector<Entry> entries() const;
  kj::Promise<void> otherEntries(kj::ArrayPtr<const Entry> than);
  // Fetches and publishes; returns the errors.
  kj::Promise<kj::Vector<kj::String>> bring(kj::ArrayPtr<const Entry> wanted);
  kj::Promise<kj::Maybe<kj::String>> fetch(const Entry& entry);  // the error, if any
  kj::Promise<void> publishNext(kj::ArrayPtr<const Entry> wanted);
  kj::Promise<void> publish(kj::ArrayPtr<const Entry> wanted);
  TlsVerifier& verifier();
};

}  // namespace talos::kubed
