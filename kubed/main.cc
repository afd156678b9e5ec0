// kubed: what a node does in Kubernetes itself. Wiring only; manifests are told of in
// manifest-reconciler.h, the node's own object in node-reconciler.h, its static pods in
// static-pod-reconciler.h, all nodes in member-reconciler.h, its own API server in
// local-api-probe.h, the kubelet's way in in kubelet-join-reconciler.h, the node's way out of
// service and back in node-drain-reconciler.h, what others may ask it in survey-server.h.
//
// --worker: the way in and the way out alone, with the bootstrap token and the kubelet's
// certificate: a worker has no other.
//
// Its environment tells it the listening unix socket that its supervisor holds, and where machined
// listens (common/base/node-layout.h); etcd and the Kubernetes API are asked on the loopback
// interface, a drain at the endpoint of the cluster. Needs no capability and writes no file.
#include <random>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/etcd/etcd-client.h"
#include "common/kube/survey.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "kubed/manifests/extra-manifests.h"
#include "kubed/nodes/kubelet-access.h"
#include "kubed/nodes/kubelet-join-reconciler.h"
#include "kubed/nodes/local-api-probe.h"
#include "kubed/nodes/member-reconciler.h"
#include "kubed/nodes/node-drain-reconciler.h"
#include "kubed/nodes/node-reconciler.h"
#include "kubed/nodes/static-pod-reconciler.h"
#include "kubed/nodes/survey-server.h"

namespace talos::kubed {

constexpr kj::StringPtr kAuthoritiesBundle = "/etc/ssl/certs/ca-certificates.crt"_kj;
constexpr kj::StringPtr kWorker = "--worker"_kj;

kj::Promise<SurveyServer::Message> readSurvey(kj::Timer& timer, KubernetesBoard& board) {
  auto client = board.client();
  KJ_IF_MAYBE (why, client.tryGet<kj::String>()) fail(ErrorKind::kUnavailable, *why);
  auto& kubernetes = client.get<kj::Own<SharedKube>>();
  co_return co_await kube::readSurvey(timer, **kubernetes);
}

void run(bool worker) {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);
  kj::Function<double()> random = [&] { return unit(generator); };

  kube::DialDependencies deps{lowLevel, io.unixEventPort, timer};
  StoreClient store(lowLevel, timer, machinedSocket(), kj::str(kOwner));
  auto make = [&](kube::KubeAccess access) {
    auto dial = kube::dialerOf(deps, access);
    return kj::heap<kube::KubeClient>(
        timer, [&] { return random(); }, kj::mv(dial), kj::mv(access));
  };
  KubeletAccess kubelet(store, [&](auto access) { return make(kj::mv(access)); });
  NodeDrainKeeper drains(timer, random, store, kubelet);
  JoinKeeper joins(timer, store, [&](auto access) { return make(kj::mv(access)); });
  if (worker) {
    WorkerBoard board(store, kubelet);
    NodeKeeper node({timer, random, store, board, kubelet.changes()});
    releaseStartMemory();
    log::info("waiting for a kubelet that joins, or a drain");
    return drains.run().exclusiveJoin(joins.run()).exclusiveJoin(node.run()).wait(io.waitScope);
  }
  TlsEndpoint tls;
  etcd::EtcdClient etcd(lowLevel, timer, tls, Endpoint{Ip::require("127.0.0.1"), kEtcdPort});
  Signal changed;
  KubernetesBoard board(store, tls, [&](auto access) { return make(kj::mv(access)); }, changed);
  KubedWorld world{timer, random, store, board, changed};
  ExtraManifests extra(world, deps, [] { return readFile(kAuthoritiesBundle, 8u << 20); });
  ManifestKeeper manifests(world, etcd, [&] { return extra.problem(); });
  NodeKeeper node({timer, random, store, board, changed});
  StaticPodKeeper staticPods(world);
  MemberKeeper members(world);
  LocalApiKeeper localApi(timer, kj::systemPreciseCalendarClock(), store, board);
  rpc::Kubernetes::Client surveys =
      kj::heap<SurveyServer>([&]() { return readSurvey(timer, board); });
  auto serving = serveUnix(lowLevel, timer, inheritedSocket(kListenUnixVariable),
                           [&](const UnixPeer&) { return surveys; });
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("waiting for Kubernetes");
  manifests.run()
      .exclusiveJoin(extra.run())
      .exclusiveJoin(node.run())
      .exclusiveJoin(staticPods.run())
      .exclusiveJoin(members.run())
      .exclusiveJoin(localApi.run())
      .exclusiveJoin(kj::mv(serving))
      .exclusiveJoin(drains.run())
      .exclusiveJoin(joins.run())
      .wait(io.waitScope);
}

}  // namespace talos::kubed

int main(int count, char** words) {
  bool worker = count > 1 && words[1] == talos::kubed::kWorker;
  auto failure = kj::runCatchingExceptions([&] { talos::kubed::run(worker); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // it ends only by failing; its supervisor starts it again
}
