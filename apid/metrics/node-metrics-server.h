// The metrics of this node as apid serves them: metrics-server.h with the data of scrape.h, over a
// separate connection to machined and with the role os:reader, so that no fault of it shows more
// than a reader may see.
#pragma once

#include "apid/gate/call-counts.h"
#include "apid/metrics/metrics-server.h"
#include "apid/metrics/metrics-text.h"
#include "common/wire/budget.h"
#include "common/wire/roles.h"
#include "rpc/node.capnp.h"

namespace talos::metrics {

// Metrics of the calls that clients make. Pure.
void writeCalls(MetricsText& out, const apid::CallCounts& calls);

class NodeMetricsServer {
 public:
  // All arguments must outlive it.
  NodeMetricsServer(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, StoreClient& store,
                    TlsEndpoint& tls, kj::StringPtr machined, Budget& budget,
                    const apid::CallCounts& calls);
  KJ_DISALLOW_COPY_AND_MOVE(NodeMetricsServer);

  // Runs until dropped.
  kj::Promise<void> run() { return server.run(); }

 private:
  kj::Timer& timer;
  const apid::CallCounts& calls;
  Rules rules;
  rpc::Node::Client node;
  kj::Function<void(MetricsText&)> own;
  MetricsServer server;

  void writeOwn(MetricsText& out);
};

}  // namespace talos::metrics
