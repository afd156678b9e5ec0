// Gathers what metrics are made of from this node's machined, with the rights of os:reader, and
// writes all families.
//
// All calls start at once, and each has a deadline of its own: one that fails, or that this node
// has no answer for, costs its own families only, and talos_metrics_part_up says so. Nothing is
// kept between two scrapes.
#pragma once

#include <kj/timer.h>

#include "apid/metrics/metrics-text.h"
#include "rpc/node.capnp.h"

namespace talos::metrics {

// `node`: its calls may be limited by role. `own` writes the families that apid itself has.
kj::Promise<void> scrapeNode(kj::Timer& timer, const kj::Clock& clock, rpc::Node::Client node,
                             MetricsText& out, kj::Function<void(MetricsText&)>& own);

}  // namespace talos::metrics
