// From what was observed of a cluster to what is wrong with it: all checks, then the order of
// causes.
//
// A finding that an earlier one explains (Check::because) is its consequence; the others are
// causes, in the order of the table: the first one is the first broken link. Pure.
#pragma once

#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

void diagnose(ObservedCluster cluster, rpc::Diagnosis::Builder out);

// `columns` of a terminal: longer lines are broken at blanks, but for commands, which are copied;
// 0: no line is.
kj::String diagnosisText(rpc::Diagnosis::Reader diagnosis, size_t columns = 0);

}  // namespace talos::talosctl
