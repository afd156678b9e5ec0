// For tests: the containers of a model node.
#pragma once

#include "common/wire/test-pods.h"
#include "rpc/node.capnp.h"

namespace talos::talosctl {

class FakeContainers final : public rpc::Containers::Server {
 public:
  FakeContainers(ModelPods& pods, bool pullsHang) : pods(pods), pullsHang(pullsHang) {}

  kj::Promise<void> list(ListContext context) override {
    auto containers = context.getResults().initContainers(1 + 2 * pods.pods.size());
    pods.list(containers, 1);
    auto container = containers[0];
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
    auto images = context.getResults().initImages(2);
    images[0].setName("registry.k8s.io/kubelet:v1.34.4"), images[0].setSize(35'000'000);
    images[0].setDigest("sha256:7209247b54c4ef2c696ef85d674d6f1bd6fa26d88828c7c96fa78ac7fd054d28");
    auto image = images[1];
    image.setName("registry.k8s.io/pause:3.10"), image.setSize(320'000);
    image.setDigest("sha256:278fb9dbcca9518083ad1e11276933a2e96f23de604a3a08cc3c80002767d24c");
    return kj::READY_NOW;
  }
  kj::Promise<void> pull(PullContext context) override {
    return pullsHang ? kj::Promise<void>(kj::NEVER_DONE) : kj::READY_NOW;
  }

 private:
  ModelPods& pods;
  bool pullsHang;
};

}  // namespace talos::talosctl
