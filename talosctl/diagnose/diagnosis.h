// Derives a cluster's faults from observations: runs all checks, then orders the causes.
//
// A finding that an earlier finding explains (Check::because) is its consequence. The other
// findings are causes, in the order of the table: the first cause is the first broken link. Pure.
#pragma once

#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

void diagnose(ObservedCluster cluster, rpc::Diagnosis::Builder out);

// `columns`: width of the terminal; longer lines are broken at blanks, except commands, because
// users copy them. 0: no line is broken.
kj::String diagnosisText(rpc::Diagnosis::Reader diagnosis, size_t columns = 0);

}  // namespace talos::talosctl
