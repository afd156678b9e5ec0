// The log `audit`: one line for each call that changes something on this machine, or gives out
// secrets or files, with its caller, as apid reports them.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

#include "rpc/local.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kAuditLog = "audit"_kj;

// Returns `time=2026-11-20T12:07:35.042Z client=admin address=10.0.0.9 roles=os:admin call=…
// outcome=ok duration=1.2ms`, with a newline; `via` only if it is set. The result is always one
// line, and shorter than the longest line that a log keeps whole, whatever the record holds.
kj::String auditLine(rpc::AuditRecord::Reader record, kj::Date now);

}  // namespace talos::machined
