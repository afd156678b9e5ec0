#include "networkd/control/networkd-server.h"

namespace talos::networkd {

namespace {

class NetworkServer final : public rpc::Network::Server {
 public:
  NetworkServer(Controller& controller, Captures& captures)
      : controller(controller), captures(captures) {}

  kj::Promise<void> interfaces(InterfacesContext context) override {
    fillInterfaces(controller.observe(), context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> routes(RoutesContext context) override {
    fillRoutes(controller.observe(), controller.allRoutes(), context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> capture(CaptureContext context) override {
    auto counts = co_await captures.capture(context.getParams());
    context.getResults().setPackets(counts.packets);
    context.getResults().setDropped(counts.dropped);
  }

 private:
  Controller& controller;
  Captures& captures;
};

class NetworkdServer final : public rpc::Networkd::Server {
 public:
  NetworkdServer(Controller& controller, Captures& captures)
      : controller(controller), captures(captures) {}

  kj::Promise<void> network(NetworkContext context) override {
    context.getResults().setNetwork(kj::heap<NetworkServer>(controller, captures));
    return kj::READY_NOW;
  }
  kj::Promise<void> plan(PlanContext context) override {
    auto preview = controller.preview(context.getParams().getSpecs());
    auto results = context.getResults();
    auto steps = results.initSteps(preview.steps.size());
    for (auto i : kj::indices(preview.steps)) steps.set(i, preview.steps[i]);
    auto problems = results.initProblems(preview.problems.size());
    for (auto i : kj::indices(preview.problems)) problems.set(i, preview.problems[i]);
    return kj::READY_NOW;
  }
  kj::Promise<void> ready(ReadyContext context) override { return controller.ready(); }

 private:
  Controller& controller;
  Captures& captures;
};

}  // namespace

rpc::Networkd::Client makeServer(Controller& controller, Captures& captures) {
  return kj::heap<NetworkdServer>(controller, captures);
}

}  // namespace talos::networkd
