// kubed: the client of the Kubernetes API of a node. Wiring only: it applies manifests
// (manifest-reconciler.h), keeps the Node object (node-reconciler.h), publishes static pods
// (static-pod-reconciler.h), members (member-reconciler.h) and the addresses of API servers
// (api-endpoints-reconciler.h), probes the local API server (local-api-probe.h), renews the
// bootstrap token (bootstrap-token-reconciler.h), gets the kubelet's first certificate
// (kubelet-join-reconciler.h), approves the certificate requests of workers (join-approver.h) and
// of kubelets as servers (serving-approver.h), removes Node objects of earlier names
// (superseded-node-reconciler.h), gives pods access to the machine API (pod-access.h), drains the
// node (node-drain-reconciler.h), balances connections to the API servers (balancer-reconciler.h),
// serves surveys and tries clients (client-server.h).
//
// --worker: without manifests, static pods, members, probe, surveys, renewals, approvals, removals
// and pods. A worker has the bootstrap token and the kubelet's certificate, and no others.
//
// Its environment names the listening Unix socket that its supervisor holds, and machined's socket
// (common/base/node-layout.h). It connects to etcd and the API server on the loopback interface,
// for a drain to the endpoint of the cluster, and for approvals to port 50000 of the addresses in
// requests of kubelets, without a certificate; the balancer listens on the loopback interface and
// connects to all API servers. It needs no capability and writes no file.
#include <random>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/etcd/etcd-client.h"
#include "common/kube/survey.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "kubed/accounts/pod-access.h"
#include "kubed/balancer/balancer-reconciler.h"
#include "kubed/manifests/bootstrap-token-reconciler.h"
#include "kubed/manifests/manifest-reconciler.h"
#include "kubed/nodes/api-endpoints-reconciler.h"
#include "kubed/nodes/client-server.h"
#include "kubed/nodes/join-approver.h"
#include "kubed/nodes/kubed-server.h"
#include "kubed/nodes/kubelet-access.h"
#include "kubed/nodes/kubelet-join-reconciler.h"
#include "kubed/nodes/local-api-probe.h"
#include "kubed/nodes/member-reconciler.h"
#include "kubed/nodes/node-drain-reconciler.h"
#include "kubed/nodes/node-reconciler.h"
#include "kubed/nodes/serving-approver.h"
#include "kubed/nodes/static-pod-reconciler.h"
#include "kubed/nodes/superseded-node-reconciler.h"

namespace talos::kubed {

constexpr kj::StringPtr kWorker = "--worker"_kj;

kj::Promise<ClientServer::Message> readSurvey(kj::Timer& timer, KubernetesStoreAdapter& adapter) {
  auto client = adapter.client();
  KJ_IF_MAYBE (error, client.tryGet<kj::String>()) fail(ErrorKind::kUnavailable, *error);
  auto& kubernetes = client.get<kj::Own<SharedKube>>();
  co_return co_await kube::readSurvey(timer, **kubernetes);
}

using MakeClient = kj::Function<kj::Own<kube::KubeClient>(kube::KubeAccess)>;

// Both kinds of nodes have it.
struct Shared {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Timer& timer;
  kj::Function<double()>& random;
  const DialDependencies& dialing;
  StoreClient& store;
  KubeletAccess& kubelet;
  MakeClient& make;
};

kj::Promise<void> runWorker(Shared& shared) {
  WorkerStoreAdapter adapter(shared.store, shared.kubelet);
  NodeDependencies deps{.timer = shared.timer,
                        .random = shared.random,
                        .store = shared.store,
                        .adapter = adapter,
                        .changed = shared.kubelet.changes()};
  NodeReconciler node(deps);
  ApiEndpointsReconciler endpoints(deps);
  releaseStartMemory();
  log::info("waiting for a kubelet that joins, or a drain");
  co_await node.run().exclusiveJoin(endpoints.run());
}

kj::Promise<void> runControlPlane(Shared& shared) {
  TlsEndpoint tls;
  etcd::EtcdClient etcd(shared.lowLevel, shared.timer, tls,
                        Endpoint{Ip::require("127.0.0.1"), kEtcdPort});
  Signal changed;
  KubernetesStoreAdapter adapter(
      shared.store, tls, [&](auto access) { return shared.make(kj::mv(access)); }, changed);
  KubedDependencies deps{.timer = shared.timer,
                         .random = shared.random,
                         .store = shared.store,
                         .adapter = adapter,
                         .changed = changed};
  ManifestReconciler manifests(deps, etcd);
  NodeReconciler node(deps.ofNode());
  ApiEndpointsReconciler endpoints(deps.ofNode());
  StaticPodReconciler staticPods(deps);
  MemberReconciler members(deps);
  LocalApiProbe localApi(shared.timer, deps.clock, shared.store, adapter);
  BootstrapTokenReconciler token(deps);
  JoinApprover approver(deps, kj::systemPreciseMonotonicClock());
  ServingApprover servers(deps, kj::systemPreciseMonotonicClock(), shownByApi(shared.dialing));
  SupersededNodeReconciler superseded(deps);
  AccessStoreAdapter access(shared.timer, shared.store, changed);
  PodAccess pods(deps, access, etcd);
  Rules rules(capnp::Schema::from<rpc::Kubernetes>());
  RequestTrace trace(shared.timer, rules);
  auto server =
      serveKubed(kj::heap<ClientServer>(shared.dialing, shared.make, shared.store, adapter,
                                        [&]() { return readSurvey(shared.timer, adapter); }),
                 trace);
  auto serving = serveUnix(shared.lowLevel, shared.timer, inheritedSocket(kListenUnixVariable),
                           [&](const UnixPeer&) { return server; });
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(shared.timer).eagerlyEvaluate(nullptr);
  log::info("waiting for Kubernetes");
  co_await manifests.run()
      .exclusiveJoin(node.run())
      .exclusiveJoin(endpoints.run())
      .exclusiveJoin(staticPods.run())
      .exclusiveJoin(members.run())
      .exclusiveJoin(localApi.run())
      .exclusiveJoin(token.run())
      .exclusiveJoin(approver.run())
      .exclusiveJoin(servers.run())
      .exclusiveJoin(superseded.run())
      .exclusiveJoin(pods.run())
      .exclusiveJoin(kj::mv(serving));
}

// A server that has vanished is noticed within this time.
constexpr auto kSilence = 30 * kj::SECONDS;

kj::Promise<kj::Own<kj::AsyncIoStream>> dialServer(const DialDependencies& dialing,
                                                   const ApiServer& server) {
  auto stream = co_await dialHost(dialing, kj::str(server.host), server.port);
  tuneTcp(*stream, kSilence);
  co_return kj::mv(stream);
}

void run(bool worker) {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);
  kj::Function<double()> random = [&] { return unit(generator); };
  DialDependencies dialing{lowLevel, io.unixEventPort, timer};
  StoreClient store(lowLevel, timer, machinedSocket(), kj::str(kOwner));
  MakeClient make = [&](kube::KubeAccess access) {
    auto dial = kube::dialerOf(dialing, access);
    return kj::heap<kube::KubeClient>(
        timer, [&] { return random(); }, kj::mv(dial), kj::mv(access));
  };
  KubeletAccess kubelet(store, [&](auto access) { return make(kj::mv(access)); });
  NodeDrainReconciler drains(timer, random, store, kubelet);
  KubeletJoinReconciler joins(timer, store, [&](auto access) { return make(kj::mv(access)); });
  Shared shared{.lowLevel = lowLevel,
                .timer = timer,
                .random = random,
                .dialing = dialing,
                .store = store,
                .kubelet = kubelet,
                .make = make};
  ApiBalancer::Dial dial = [&](const ApiServer& server) { return dialServer(dialing, server); };
  BalancerReconciler balancer({.lowLevel = lowLevel,
                               .timer = timer,
                               .clock = kj::systemPreciseMonotonicClock(),
                               .dial = dial},
                              store);
  auto running = worker ? runWorker(shared) : runControlPlane(shared);
  drains.run()
      .exclusiveJoin(joins.run())
      .exclusiveJoin(balancer.run())
      .exclusiveJoin(kj::mv(running))
      .wait(io.waitScope);
}

}  // namespace talos::kubed

int main(int argc, char** argv) {
  talos::crash::reportCrashes("kubed");
  bool worker = argc > 1 && argv[1] == talos::kubed::kWorker;
  auto failure = kj::runCatchingExceptions([&] { talos::kubed::run(worker); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // it exits only by failing; its supervisor starts it again
}
