// Which manifests are done, from pass to pass (ManifestKeeper). Pure; after a crash it begins with
// what is told of as applied.
#pragma once

#include <kj/map.h>

#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {

class ManifestProgress {
 public:
  // What an earlier process has applied: told of so, though a pass looks at it again.
  void recall(kj::Vector<kj::String> ids);

  // Those that a pass has to look at: the new and the changed ones and, with `again`, those that
  // failed. Forgets those that are not in `all`, and everything when `basis`, what Kubernetes is
  // reached with, is another one.
  kj::Vector<ManifestText> due(kj::ArrayPtr<const ManifestText> all, uint64_t basis, bool again);
  // What became of a pass over `tried`. One that rejects is not noted: all of it is due again.
  void note(kj::ArrayPtr<const ManifestText> tried, const CreatedManifests& result);

  // Ids. With `known`, only of those that are in `all`.
  kj::Vector<kj::String> applied(kj::ArrayPtr<const ManifestText> all, bool known) const;
  // Why some are not; empty: all are.
  kj::String failure() const;

 private:
  struct Outcome {
    uint64_t version;
    kj::String failure;  // empty: it is done
  };
  kj::TreeMap<kj::String, Outcome> outcomes;
  kj::Vector<kj::String> recalled;
  uint64_t basis = 0;
};

}  // namespace talos::kubed
