// The state of the node for the trial of a change of its config (machined/config/trial-judge.h):
// its duties, as at the trial of another system, with the end of the boot, and whether a server of
// the Kubernetes API can be reached. The Node object stays Ready for most of a minute after the
// kubelet has lost its API server or ended, so it counts only together with a connection, and a
// minute after the start of the kubelet. A service that the boot does not wait for is no duty, as
// the new config may need no vipd, but the kubelet is one, and etcd where the config has it.
//
// The node to blame if the cluster is missed: a server that refuses connections is ill, or away,
// on another node. A name that is not resolved, a server that does not answer and other voters that
// are silent are this node's own failure if the change concerns the network (kindsOf()), and those
// nodes' failure otherwise. This brain speaks no TLS to other nodes; a balancer that accepts
// connections without having a server is found by the error of kubed, which does.
//
// Changes nothing, and keeps nothing.
#pragma once

#include "machined/boot/sequences.h"
#include "machined/brain/upgrade-assembly.h"
#include "machined/config/trial-judge.h"

namespace talos::machined {

// The best answer of the servers of the Kubernetes API, from the worst on.
enum class ApiAnswer { kUnresolved, kSilent, kRefused, kAccepted };

// Connects to "10.0.0.1:6443" or "[::1]:6443"; sends nothing.
kj::Promise<ApiAnswer> connectToApi(kj::Network& network, kj::Timer& timer, kj::String address);

// Answers of the servers of the Kubernetes API.
struct ApiView {
  ApiAnswer answer = ApiAnswer::kSilent;  // by the running config
  kj::Maybe<ApiAnswer> answerBefore =
      nullptr;  // by the endpoint of the last good one, if it differs
  bool ownNetwork = false;
};
// Completes the duty of the Node: without a server it fails, and whose failure it is. Adds the duty
// if kubed has not reported the Node yet. Pure.
void judgeNode(TrialFacts& facts, const ApiView& api);

// Returns true if the start of a service waits for its image, without an error since it last ran.
bool awaitsImage(rpc::Service::Reader service);

class NodeTrialFacts {
 public:
  NodeTrialFacts(BrainCore& core, ServicesAssembly& services, KubernetesAssembly& kubernetes,
                 UpgradeAssembly& upgrades)
      : core(core), services(services), kubernetes(kubernetes), upgrades(upgrades) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeTrialFacts);

  // Resolves within seconds; does not reject. `before` is the last good config. `ownNetwork`: the
  // change concerns the network of this node.
  kj::Promise<TrialFacts> read(config::Config::Reader before, bool ownNetwork);

 private:
  using Answer = ApiAnswer;
  BrainCore& core;
  ServicesAssembly& services;
  KubernetesAssembly& kubernetes;
  UpgradeAssembly& upgrades;

  kj::Promise<kj::Vector<Duty>> duties(bool ownNetwork);
  bool isCounted(kj::StringPtr service);
  bool isFetched(kj::StringPtr service);
  void addKubelet(TrialFacts& facts);
  kj::Promise<Answer> connect(kj::String address);
  kj::Promise<Answer> apiServers(kj::StringPtr endpoint, bool orBalancer);
  kj::Promise<void> checkNode(TrialFacts& facts, config::Config::Reader before, bool ownNetwork);
};

}  // namespace talos::machined
