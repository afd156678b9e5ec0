// The state of the node for the trial of a change of its config (machined/config/trial-judge.h):
// its duties, as at the trial of another system, with the end of the boot, and whether a server of
// the Kubernetes API can be reached. The Node object stays Ready for most of a minute after the
// kubelet has lost its API server or ended, so it counts only together with a connection, and a
// minute after the start of the kubelet. So do static pods, which stay Ready until they have ended
// when their definition changes, and a minute after the last change of their files. A service that
// the boot does not wait for is no duty, as the new config may need no vipd, but the kubelet is
// one, and etcd where the config has it. Both fail while they wait for what the config wants of
// them, such as an address in a subnet: they run on as before, but would not start at the next
// boot.
//
// The node to blame if the cluster is missed: a server that refuses connections is ill, or away,
// on another node. A name that is not resolved, a server that does not answer and other voters that
// are silent are this node's own failure if the change concerns the network (kindsOf()), and those
// nodes' failure otherwise. A node whose own API server fails, and not because too few voters run,
// blames no others: it may be the only one. Nor does a node that a server refuses (401, 403). An
// address of this node is no server of another one. This brain speaks no TLS to other nodes; a
// balancer that accepts connections without having a server is found by the error of kubed, which
// does.
//
// Changes nothing, and keeps only which connections are older than the change (trial-calls.h).
#pragma once

#include "machined/boot/sequences.h"
#include "machined/brain/trial-calls.h"
#include "machined/brain/upgrade-assembly.h"
#include "machined/config/trial-judge.h"

namespace talos::machined {

// The best answer of the servers of the Kubernetes API, from the worst on.
enum class ApiAnswer { kUnresolved, kSilent, kRefused, kAccepted };

// Connects to "10.0.0.1:6443" or "[::1]:6443"; sends nothing.
kj::Promise<ApiAnswer> connectToApi(kj::Network& network, kj::Timer& timer, kj::String address);

// Resolves as soon as a server accepts, or with the best answer; without calls with kUnresolved.
kj::Promise<ApiAnswer> bestAnswer(kj::Vector<kj::Promise<ApiAnswer>> calls);

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

// Makes the duty of a service fail that cannot take up the config, and runs on as before: it waits
// for this. Pure.
void addMissing(kj::ArrayPtr<Duty> duties, kj::StringPtr service, kj::Maybe<kj::String> waitsFor);

// Returns true if the start of a service waits for its image, without an error since it last ran.
// The fetch itself is no event: a kubelet that has waited for its settings may fetch by now.
bool awaitsImage(rpc::Service::Reader service);

// Returns why the static pods may not show the effect of the change yet; `changed`: when their
// files have changed. A clock that was set back says nothing. Pure.
kj::Maybe<kj::String> whyPodsAreEarly(kj::Maybe<kj::Date> changed, kj::Date now);

class NodeTrialFacts {
 public:
  NodeTrialFacts(BrainCore& core, ServicesAssembly& services, KubernetesAssembly& kubernetes,
                 UpgradeAssembly& upgrades)
      : core(core), services(services), kubernetes(kubernetes), upgrades(upgrades) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeTrialFacts);

  // Resolves within seconds; does not reject. `before` is the last good config. `ownNetwork`: the
  // change concerns the network of this node.
  kj::Promise<TrialFacts> read(config::Config::Reader before, bool ownNetwork);
  // A trial with this number is on: connections from before it takes effect do not count. If it
  // needs a call, they are ended then.
  void begin(uint64_t trial, bool needsCall) {
    clientCalls.begin(trial, needsCall, core.timer.now());
  }
  // Resolves with true if a call of a client at this moment shows that clients can reach the node
  // with the config on trial. Does not reject.
  kj::Promise<bool> isReached();

 private:
  using Answer = ApiAnswer;
  BrainCore& core;
  ServicesAssembly& services;
  KubernetesAssembly& kubernetes;
  UpgradeAssembly& upgrades;
  TrialCalls clientCalls;
  bool countsAll = false;  // the kernel does not list or end connections

  kj::Promise<kj::Vector<Duty>> duties(bool ownNetwork);
  bool isCounted(kj::StringPtr service);
  bool isFetched(kj::StringPtr service);
  kj::Promise<void> addEtcd(TrialFacts& facts);
  void addKubelet(TrialFacts& facts);
  bool isOfThisNode(kj::StringPtr server);
  kj::Promise<Answer> apiServers(kj::StringPtr endpoint, bool orBalancer);
  kj::Promise<ApiView> lookAtApi(config::Config::Reader before, bool ownNetwork);
  kj::Promise<kj::Vector<netlink::Connection>> connections();
  kj::Promise<void> lookAtConnections(const TrialFacts& facts);
  void countAll(const kj::Exception& e);
};

}  // namespace talos::machined
