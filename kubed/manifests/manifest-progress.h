// Tracks from pass to pass which manifests are applied (ManifestReconciler). Pure; after a crash it
// starts with those that the published status names as applied.
#pragma once

#include <kj/map.h>

#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {

class ManifestProgress {
 public:
  // The manifests that an earlier process applied: reported as applied, though a pass checks them
  // again.
  void recall(kj::Vector<kj::String> ids);

  // The manifests for a pass: the new and the changed ones and, with `again`, those that failed.
  // Forgets those that are not in `all`, and everything when `basis`, the version of the client's
  // secrets, differs.
  kj::Vector<ManifestText> due(kj::ArrayPtr<const ManifestText> all, uint64_t basis, bool again);
  // Records the result of a pass over `tried`. A rejected pass is not recorded: all of it is due
  // again.
  void note(kj::ArrayPtr<const ManifestText> tried, const CreatedManifests& result);

  // Returns ids. With `known`, only of manifests in `all`.
  kj::Vector<kj::String> applied(kj::ArrayPtr<const ManifestText> all, bool known) const;
  // Why some are not applied; empty: all are.
  kj::String failure() const;

 private:
  struct Outcome {
    uint64_t version;
    kj::String failure;  // empty: applied
  };
  kj::TreeMap<kj::String, Outcome> outcomes;
  kj::Vector<kj::String> recalled;
  uint64_t basis = 0;
};

}  // namespace talos::kubed
