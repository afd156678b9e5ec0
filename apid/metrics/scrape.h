// Gathers the input of metrics from this node's machined, with the role os:reader, and writes all
// families.
//
// All calls start at once, and each has a separate deadline: a call that fails, or that this node
// cannot answer, costs only its families, and talos_metrics_part_up shows this. Nothing is kept
// between two scrapes.
#pragma once

#include <kj/timer.h>

#include "apid/metrics/metrics-text.h"
#include "rpc/node.capnp.h"

namespace talos::metrics {

// `node`: its calls may be limited by role. `pods`: with the control groups of pods. `own` writes
// apid's own families.
kj::Promise<void> scrapeNode(kj::Timer& timer, const kj::Clock& clock, rpc::Node::Client node,
                             bool pods, MetricsText& out, kj::Function<void(MetricsText&)>& own);

}  // namespace talos::metrics
