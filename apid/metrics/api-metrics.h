// Metrics of the calls that clients make. Pure.
#pragma once

#include "apid/gate/call-counts.h"
#include "apid/metrics/metrics-text.h"

namespace talos::metrics {

void writeCalls(MetricsText& out, const apid::CallCounts& calls);

}  // namespace talos::metrics
