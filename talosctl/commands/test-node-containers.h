// For tests: the containers of a model node.
#pragma once

#include "rpc/node.capnp.h"

namespace talos::talosctl {

class FakeContainers final : public rpc::Containers::Server {
 public:
  kj::Promise<void> list(ListContext context) override {
    auto container = context.getResults().initContainers(1)[0];
    container.setNamespace("k8s.io"), container.setId("kube-system/coredns-x");
    container.setImage("registry.k8s.io/pause:3.10"), container.setStatus("SANDBOX_READY");
    return kj::READY_NOW;
  }
  kj::Promise<void> stats(StatsContext context) override {
    auto stat = context.getResults().initStats(1)[0];
    stat.setNamespace("k8s.io"), stat.setId("kube-system/coredns-x");
    return kj::READY_NOW;
  }
  kj::Promise<void> restart(RestartContext context) override { return kj::READY_NOW; }
  kj::Promise<void> images(ImagesContext context) override {
    auto image = context.getResults().initImages(1)[0];
    image.setName("registry.k8s.io/pause:3.10"), image.setSize(320'000);
    image.setDigest("sha256:278fb9dbcca9518083ad1e11276933a2e96f23de604a3a08cc3c80002767d24c");
    return kj::READY_NOW;
  }
  kj::Promise<void> pull(PullContext context) override { return kj::READY_NOW; }
};

}  // namespace talos::talosctl
