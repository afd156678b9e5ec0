#include "apid/metrics/node-metrics-server.h"

#include "apid/gate/gate.h"
#include "apid/metrics/scrape.h"

namespace talos::metrics {

void writeCalls(MetricsText& out, const apid::CallCounts& calls) {
  out.family("talos_api_calls_total", Type::kCounter,
             "Calls of clients of this apid since it was started, by their most powerful role");
  for (auto& [name, method] : calls.methods()) {
    for (auto& [labels, count] : method.results) {
      out.add({{"method", name.c_str()}, {"role", labels.first}, {"result", labels.second}}, count);
    }
  }
  out.family("talos_api_call_seconds", Type::kHistogram, "How long calls of clients take");
  for (auto& [name, method] : calls.methods()) {
    Label label{"method", name.c_str()};
    out.addHistogram(kj::arrayPtr(&label, 1), apid::CallCounts::kBounds, method.counts,
                     method.seconds);
  }
}

namespace {

// Limit of machined's answers: control groups need most, 1 KiB each.
constexpr size_t kMostOfScrapes = 32u << 20;

rpc::Node::Client readersNode(const Rules& rules, rpc::Node::Client all) {
  return attenuate(rules, kj::mv(all), kj::arr(kj::str(kRoleReader)),
                   [](kj::StringPtr, kj::StringPtr) {})
      .castAs<rpc::Node>();
}

}  // namespace

NodeMetricsServer::NodeMetricsServer(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                     StoreClient& store, TlsEndpoint& tls, kj::StringPtr machined,
                                     Budget& budget, const apid::CallCounts& calls)
    : timer(timer),
      calls(calls),
      rules(capnp::Schema::from<rpc::Node>()),
      node(readersNode(
          rules, apid::localNode(lowLevel, timer, machined,
                                 budget.account("metrics", kMostOfScrapes, Budget::Rank::kUsual),
                                 "metrics")(""))),
      own(KJ_BIND_METHOD(*this, writeOwn)),
      server(lowLevel, timer, store, tls, [this](MetricsText& out, bool pods) {
        return scrapeNode(this->timer, kj::systemPreciseCalendarClock(), node, pods, out, own);
      }) {}

void NodeMetricsServer::writeOwn(MetricsText& out) {
  writeCalls(out, calls);
  auto& counts = server.counts();
  out.family("talos_metrics_requests_total", Type::kCounter,
             "Requests for metrics since apid was started, this one included");
  out.add({{"result", "answered"}}, counts.answered + 1);
  out.add({{"result", "refused"}}, counts.refused);
  out.add({{"result", "failed"}}, counts.failed);
}

}  // namespace talos::metrics
