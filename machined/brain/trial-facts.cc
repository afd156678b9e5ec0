#include "machined/brain/trial-facts.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/config/kubernetes/endpoint.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr auto kConnect = 1 * kj::SECONDS, kResolve = 1 * kj::SECONDS, kNow = 0 * kj::SECONDS,
               kKubeletSettles = 1 * kj::MINUTES;
constexpr uint16_t kHttps = 443;
constexpr kj::StringPtr kService = "service "_kj, kEtcd = "etcd"_kj;
// kubed's errors about the server itself begin so (common/kube/kube-client.h).
constexpr kj::StringPtr kApiError = "Kubernetes at "_kj;

// Returns "10.0.0.1:6443" or "[::1]:6443".
kj::String hostAndPort(kj::StringPtr address, uint16_t port) {
  bool bracketed = address.findFirst(':') != nullptr;
  return bracketed ? kj::str('[', address, "]:", port) : kj::str(address, ':', port);
}

}  // namespace

kj::Promise<ApiAnswer> connectToApi(kj::Network& network, kj::Timer& timer, kj::String address) {
  auto answer = ApiAnswer::kSilent;
  try {
    auto parsed = co_await network.parseAddress(address);
    co_await within(timer, kConnect, parsed->connect().ignoreResult(),
                    kj::str(address, " did not answer"));
    answer = ApiAnswer::kAccepted;
  } catch (const kj::Exception& e) {
    if (strstr(e.getDescription().cStr(), strerror(ECONNREFUSED)) != nullptr) {
      answer = ApiAnswer::kRefused;
    }
  }
  co_return answer;
}

void judgeNode(TrialFacts& facts, const ApiView& api) {
  Duty* node = nullptr;
  for (auto& duty : facts.duties) {
    if (duty.name == kNodeDuty) node = &duty;
  }
  if (node == nullptr) {
    if (!facts.scope.known || !facts.scope.registered) return;
    node = &facts.duties.add(Duty{kj::str(kNodeDuty), kj::str("it is not known yet")});
  }
  bool accepts = api.answer == ApiAnswer::kAccepted;
  if (!accepts && node->problem == nullptr) {
    node->problem = kj::str(api.answer == ApiAnswer::kUnresolved
                                ? "the name of the Kubernetes API is not resolved"
                                : "no server of the Kubernetes API can be reached");
  }
  KJ_IF_MAYBE (problem, node->problem) {
    // The endpoint of the last good config tells a wrong new one from servers that are away.
    auto answer = accepts ? api.answer : api.answerBefore.orDefault(api.answer);
    bool isAway = answer == ApiAnswer::kRefused;
    if (!api.ownNetwork) {
      isAway = answer != ApiAnswer::kAccepted || problem->startsWith(kApiError);
    }
    node->causedElsewhere = node->causedElsewhere || isAway;
  }
}

// Each failure of a fetch is an event of the service.
bool awaitsImage(rpc::Service::Reader service) {
  using State = rpc::ServiceState;
  if (service.getState() != State::PREPARING) return false;
  bool waits = false, failed = false;
  for (auto event : service.getEvents()) {
    bool runs = event.getState() == State::RUNNING;
    auto text = event.getMessage();
    waits = text.startsWith("Waiting");  // for something else
    failed = !runs && (failed || event.getState() == State::FAILED ||
                       strstr(text.cStr(), "retry") != nullptr);
  }
  return !waits && !failed;
}

bool NodeTrialFacts::isCounted(kj::StringPtr service) {
  if (services.supervisor.isAwaited(service) || service == kKubeletService) return true;
  return service == kEtcd && !core.store.list<rpc::EtcdConfigSpec>().empty();
}

kj::Promise<kj::Vector<Duty>> NodeTrialFacts::duties(bool ownNetwork) {
  kj::Vector<Duty> kept;
  for (auto& duty : co_await upgrades.duties(!ownNetwork)) {
    bool counts = true;
    for (auto& id : services.supervisor.ids()) {
      if (duty.name == kj::str(kService, id)) counts = isCounted(id);
    }
    if (counts) kept.add(kj::mv(duty));
  }
  co_return kj::mv(kept);
}

// Resolves with the best answer of the servers that the balancer of this node knows, or else of the
// endpoint.
kj::Promise<NodeTrialFacts::Answer> NodeTrialFacts::apiServers(kj::StringPtr endpoint,
                                                               bool orBalancer) {
  kj::Vector<kj::Promise<Answer>> calls;
  auto add = [&](kj::String address) {
    calls.add(connectToApi(core.io.provider->getNetwork(), core.timer, kj::mv(address)));
  };
  if (orBalancer) {
    for (auto status : core.store.list<rpc::KubePrismStatusSpec>()) {
      for (auto server : status.getEndpoints()) add(kj::str(server.getEndpoint()));
    }
  }
  if (calls.empty()) {
    auto parsed = config::parseEndpoint(endpoint);
    auto port = parsed.value.port.orDefault(kHttps);
    kj::Array<kj::String> addresses;
    if (parsed.problem.size() == 0) {
      co_await within(core.timer, kResolve, core.foreign.resolve(parsed.value.host),
                      kj::str("the name ", parsed.value.host, " was not resolved"))
          .then([&](kj::Array<kj::String> found) { addresses = kj::mv(found); },
                [](kj::Exception&&) {});
    }
    for (auto& address : addresses) add(hostAndPort(address, port));
  }
  auto best = calls.empty() ? Answer::kUnresolved : Answer::kSilent;
  for (auto answer : co_await kj::joinPromises(calls.releaseAsArray())) {
    best = kj::max(best, answer);
  }
  co_return best;
}

kj::Promise<void> NodeTrialFacts::checkNode(TrialFacts& facts, config::Config::Reader before,
                                            bool ownNetwork) {
  kj::String own;
  KJ_IF_MAYBE (config, core.configReader.tryConfig(core.store)) {
    own = kj::str(config->getCluster().getControlPlane().getEndpoint());
  }
  ApiView view{.answer = co_await apiServers(own, true), .ownNetwork = ownNetwork};
  auto endpoint = kj::str(before.getCluster().getControlPlane().getEndpoint());
  if (view.answer != Answer::kAccepted && endpoint != own) {
    view.answerBefore = co_await apiServers(endpoint, false);
  }
  judgeNode(facts, view);
}

// The kubelet takes up its new settings by a start.
void NodeTrialFacts::addKubelet(TrialFacts& facts) {
  auto effect = kubernetes.kubelet.effect();
  if (facts.notInEffect == nullptr) facts.notInEffect = kj::mv(effect.notYet);
  for (auto id : {kKubeletService, kEtcd}) {
    if (isCounted(id) && isFetched(id)) facts.pulls = kj::str("the image of ", id);
  }
  KJ_IF_MAYBE (time, effect.runsFor) {
    if (*time < kKubeletSettles && facts.scope.registered) {
      facts.tooEarly = kj::str("the kubelet was started less than a minute ago");
    }
  }
}

bool NodeTrialFacts::isFetched(kj::StringPtr service) {
  bool exists = false;
  for (auto& id : services.supervisor.ids()) exists = exists || id == service;
  if (!exists) return false;
  capnp::MallocMessageBuilder message;
  auto state = message.initRoot<rpc::Service>();
  services.supervisor.fill(service, state);
  return awaitsImage(state);
}

kj::Promise<TrialFacts> NodeTrialFacts::read(config::Config::Reader before, bool ownNetwork) {
  using Stage = MachineStatus::Stage;
  TrialFacts facts;
  facts.standsStill = upgrades.upgrader.isOnTrial();
  kj::Maybe<kj::Exception> failure;
  try {
    facts.duties = co_await duties(ownNetwork);
    facts.scope = dutyScopeOf(core.store);
    co_await checkNode(facts, before, ownNetwork);
    facts.notInEffect = co_await kubernetes.etcd.notInEffect(kNow, []() { return kj::String(); });
    addKubelet(facts);
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) facts.notInEffect = kj::str("its state is not known: ", messageOf(*e));
  Duty boot{kj::str(kBootDuty)};
  auto stage = core.status.stage();
  if (stage == Stage::FAILED) {
    facts.bootFailure = kj::strArray(core.status.problems(), "; ");
    boot.problem = kj::str("it failed");
  } else if (stage != Stage::RUNNING) {
    boot.problem = kj::str("it has not ended");
  }
  facts.duties.add(kj::mv(boot));
  co_return kj::mv(facts);
}

}  // namespace talos::machined
