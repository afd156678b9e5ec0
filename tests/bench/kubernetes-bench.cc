// Rendering of a control-plane node for Kubernetes, from a config to texts: the arguments and join
// data of its kubelet, the three static pods, and all manifests that a cluster starts
// with. No keys are made and no file is written.
//
//   kubernetes-bench [RUNS]   prints {"p50ms":MS,"p99ms":MS,"bytes":N}: of one rendering, and what
//                             all texts of it come to
//
// Processor time: nothing here waits.
//
// link: machined-kubernetes-kubelet machined-kubernetes machined-kubernetes-manifests
#include <capnp/message.h>
#include <kj/debug.h>
#include <stdio.h>
#include <time.h>

#include <algorithm>

#include "common/config/config-generate.h"
#include "common/config/config.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/kubelet/kubelet-plan.h"
#include "machined/kubernetes/manifests/bootstrap-manifests.h"
#include "machined/kubernetes/static-pods.h"
#include "tests/bench/arguments.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kRelease = "1.34.4"_kj;

double milliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// The bytes of all texts.
size_t render(config::Config::Reader config, const KubeletNodeContext& at) {
  Outputs<rpc::ControlPlaneConfigSpec> outputs("bench");
  planControlPlane(config, outputs);
  auto of = [&](kj::StringPtr id) { return KJ_ASSERT_NONNULL(outputs.find(id), id); };
  PodContext context{
      .version = {1, 34, 4}, .podSecurityPolicy = false, .configVersion = 1, .secretsVersion = "1"};
  size_t bytes = staticPod(of(kApiServerId).getApiServer(), context).size() +
                 staticPod(of(kControllerManagerId).getControllerManager(), context).size() +
                 staticPod(of(kSchedulerId).getScheduler(), context).size();
  for (auto& manifest : renderManifests(of(kSystemManifestsId).getSystemManifests(), "abcdef")) {
    bytes += manifest.objects.size();
  }
  capnp::MallocMessageBuilder specs, secrets;
  auto spec = specs.initRoot<rpc::KubeletSpecSpec>();
  auto secret = secrets.initRoot<rpc::KubeletSecretsSpec>();
  KJ_IF_MAYBE (waits, planKubelet(config, at, nullptr, spec)) {
    KJ_FAIL_ASSERT("the kubelet waits", waits->what);
  }
  KJ_IF_MAYBE (waits, planKubeletSecrets(config, secret)) {
    KJ_FAIL_ASSERT("the kubelet waits", waits->what);
  }
  kubeletContainer(spec);
  return bytes + kubeletDigest(spec, secret).size();
}

void run(unsigned runs) {
  auto parsed = config::parse(
      config::machineConfig(config::makeSecrets(), config::MachineType::CONTROLPLANE, "bench",
                            "https://10.5.0.50:6443", {.kubernetesVersion = kRelease}),
      "controlplane.yaml");
  KJ_ASSERT(parsed.good(), talos::render(parsed.problems()));
  KubeletNodeContext at;
  at.hostname = kj::str("bench-master-1");
  at.addresses.add(kj::str("10.5.0.2"));
  kj::Vector<double> took;
  size_t bytes = 0;
  for (unsigned i = 0; i < runs + 20; ++i) {  // the first ones warm up
    auto began = milliseconds();
    bytes = render(parsed.get(), at);
    if (i >= 20) took.add(milliseconds() - began);
  }
  std::sort(took.begin(), took.end());
  printf("{\"p50ms\":%.3f,\"p99ms\":%.3f,\"bytes\":%zu}\n", took[took.size() / 2],
         took[took.size() * 99 / 100], bytes);
}

}  // namespace
}  // namespace talos::machined

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "kubernetes-bench", "[RUNS]", [](auto& arguments) {
    arguments.expect(0, 1);
    talos::machined::run(arguments.numberOr(300, 1, "RUNS", 1, 1'000'000));
  });
}
