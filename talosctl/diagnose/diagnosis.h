// From what was seen of a cluster to what is wrong with it: all checks, then the order of causes.
//
// Findings that an earlier one explains (Check::because) are its consequences; what is left are
// causes, in the order of the table: the first one is the first broken link. Pure.
#pragma once

#include <capnp/message.h>

#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

// Of another table of checks in tests.
void diagnose(Seen seen, kj::ArrayPtr<const Check> checks, rpc::Diagnosis::Builder out);
inline void diagnose(Seen seen, rpc::Diagnosis::Builder out) {
  diagnose(seen, allChecks(), out);
}

// For people. `host`: names nothing but the client's own view.
kj::String diagnosisText(rpc::Diagnosis::Reader diagnosis);

}  // namespace talos::talosctl
