#include "networkd/control/networkd-server.h"

#include "common/base/fill-list.h"

namespace talos::networkd {

namespace {

class NetworkServer final : public rpc::Network::Server {
 public:
  NetworkServer(NetworkReconciler& reconciler, Captures& captures)
      : reconciler(reconciler), captures(captures) {}

  kj::Promise<void> interfaces(InterfacesContext context) override {
    fillInterfaces(reconciler.observe(), context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> routes(RoutesContext context) override {
    fillRoutes(reconciler.observe(), reconciler.allRoutes(), context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> capture(CaptureContext context) override {
    auto counts = co_await captures.capture(context.getParams());
    context.getResults().setPackets(counts.packets);
    context.getResults().setDropped(counts.dropped);
  }

 private:
  NetworkReconciler& reconciler;
  Captures& captures;
};

class NetworkdServer final : public rpc::Networkd::Server {
 public:
  NetworkdServer(NetworkReconciler& reconciler, Captures& captures, kj::Maybe<RequestTrace&> trace)
      : reconciler(reconciler), captures(captures), trace(trace) {}

  kj::Promise<void> network(NetworkContext context) override {
    rpc::Network::Client network = kj::heap<NetworkServer>(reconciler, captures);
    KJ_IF_MAYBE (t, trace) {
      network = t->traced<rpc::Network>(kj::mv(network), context.getParams().getRequest());
    }
    context.getResults().setNetwork(kj::mv(network));
    return kj::READY_NOW;
  }
  kj::Promise<void> plan(PlanContext context) override {
    auto preview = reconciler.preview(context.getParams().getSpecs());
    auto results = context.getResults();
    fillTexts(results.initSteps(preview.steps.size()), preview.steps);
    fillTexts(results.initProblems(preview.problems.size()), preview.problems);
    return kj::READY_NOW;
  }
  kj::Promise<void> ready(ReadyContext context) override { return reconciler.ready(); }

 private:
  NetworkReconciler& reconciler;
  Captures& captures;
  kj::Maybe<RequestTrace&> trace;
};

}  // namespace

rpc::Networkd::Client makeServer(NetworkReconciler& reconciler, Captures& captures,
                                 kj::Maybe<RequestTrace&> trace) {
  return kj::heap<NetworkdServer>(reconciler, captures, trace);
}

}  // namespace talos::networkd
