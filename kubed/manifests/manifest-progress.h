// Tracks from pass to pass which manifests are applied (ManifestReconciler). Pure; after a crash it
// starts with the manifests that the published status names as applied.
#pragma once

#include <kj/map.h>

#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {

class ManifestProgress {
 public:
  // Takes over the manifests that an earlier process applied: they are reported as applied, though
  // a pass checks them again.
  void recall(kj::Vector<kj::String> ids);

  // Returns the manifests for a pass: the new and the changed ones and, with `again`, those that
  // failed. Forgets manifests that are not in `all`, and everything if `basis`, the version of the
  // client's secrets, differs.
  kj::Vector<ManifestText> due(kj::ArrayPtr<const ManifestText> all, uint64_t basis, bool again);
  // Records the result of a pass over `tried`. A rejected pass is not recorded: all of it is due
  // again.
  void note(kj::ArrayPtr<const ManifestText> tried, const CreatedManifests& result);

  // Returns ids. With `known`, only of manifests in `all`.
  kj::Vector<kj::String> applied(kj::ArrayPtr<const ManifestText> all, bool known) const;
  // Returns why some are not applied; empty if all are.
  kj::String failure() const;

 private:
  struct Outcome {
    uint64_t version;
    kj::String failure;  // empty if applied
  };
  kj::TreeMap<kj::String, Outcome> outcomes;
  kj::Vector<kj::String> recalled;
  uint64_t basis = 0;
};

}  // namespace talos::kubed
