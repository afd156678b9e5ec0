// The manifests that the config names by URL, or has in it: Manifests, beside those that machined
// renders.
//
// Each is fetched once, and again when its entry changes or this program was started anew; until
// then what was fetched before stays. A failure is told with its URL, holds up no other one, and is
// tried again, after a second and then after up to a minute. Those that the config does not name
// any more go from the resources; in the cluster they stay.
#pragma once

#include "machined/kubed/manifest-fetch.h"
#include "machined/kubed/manifest-keeper.h"

namespace talos::kubed {

class ExtraManifests {
 public:
  // `authorities`: PEM, of servers. All outlive it.
  ExtraManifests(KubedWorld world, kube::DialEdges edges, kj::Function<kj::String()> authorities)
      : world(world),
        edges(edges),
        authorities(kj::mv(authorities)),
        backoff({.first = 1 * kj::SECONDS,
                 .longest = 1 * kj::MINUTES,
                 .chance0 = 0.75,
                 .chance1 = 1.25}) {}
  KJ_DISALLOW_COPY_AND_MOVE(ExtraManifests);

  kj::Promise<void> run();  // until dropped
  // What could not be fetched, and why; empty: nothing.
  kj::StringPtr problem() const { return problems; }

 private:
  struct Entry {
    kj::String id, url, contents;
    kj::Vector<std::pair<kj::String, kj::String>> headers;
    kj::String state;  // of all that it says
  };
  struct Fetched {
    kj::String state, objects;
  };
  KubedWorld world;
  kube::DialEdges edges;
  kj::Function<kj::String()> authorities;
  Backoff backoff;
  kj::TreeMap<kj::String, Fetched> fetched;  // by id
  kj::String problems;
  kj::Promise<void> publishing = kj::READY_NOW;  // the newest

  kj::Vector<Entry> entries() const;
  kj::Promise<kj::Maybe<kj::String>> fetch(const Entry& entry);  // why it could not be
  kj::Promise<void> publishNext(kj::ArrayPtr<const Entry> wanted);
  kj::Promise<void> publish(kj::ArrayPtr<const Entry> wanted);
};

}  // namespace talos::kubed
