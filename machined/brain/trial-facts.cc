#include "machined/brain/trial-facts.h"

#include <string.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/base/within.h"
#include "common/config/kubernetes/endpoint.h"
#include "machined/kubernetes/etcd/assigned-addresses.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/etcd/etcd-run.h"
#include "machined/kubernetes/kubelet/kubelet-controller.h"
#include "machined/kubernetes/static-pods.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr auto kConnect = 1 * kj::SECONDS, kResolve = 1 * kj::SECONDS, kNow = 0 * kj::SECONDS,
               kKubeletSettles = 1 * kj::MINUTES, kPodsSettle = 1 * kj::MINUTES;
constexpr uint16_t kHttps = 443;
constexpr kj::StringPtr kService = "service "_kj, kEtcdDuty = "service etcd"_kj,
                        kVoterDuty = "voter of etcd"_kj, kKubeletDuty = "service kubelet"_kj,
                        kOwnApi = "kube-apiserver"_kj;
// kubed's errors about the server itself begin so (common/kube/kube-client.h).
constexpr kj::StringPtr kApiError = "Kubernetes at "_kj;

// Returns "10.0.0.1:6443" or "[::1]:6443".
kj::String hostAndPort(kj::StringPtr address, uint16_t port) {
  bool bracketed = address.findFirst(':') != nullptr;
  return bracketed ? kj::str('[', address, "]:", port) : kj::str(address, ':', port);
}

// Returns true for the answers 401 and 403 of an API server: it works, and refuses this node.
bool isRefusalOfNode(kj::StringPtr problem) {
  return problem.startsWith(kApiError) && (strstr(problem.cStr(), ": Unauthorized") != nullptr ||
                                           strstr(problem.cStr(), " is forbidden: ") != nullptr);
}

// Returns true if the config wants an API server on this node that fails, and not because too few
// other voters of etcd run. kubed reports none that was never ready since the boot.
bool isOwnApiIll(const TrialFacts& facts) {
  bool isWanted = false, isElsewhere = false;
  for (auto& pod : facts.scope.staticPods) isWanted = isWanted || pod == kOwnApi;
  if (!isWanted) return false;
  for (auto& duty : facts.duties) {
    if (duty.name == kOwnApi) return duty.problem != nullptr && !duty.causedElsewhere;
    isElsewhere = isElsewhere || duty.causedElsewhere;
  }
  return !isElsewhere;
}

// Returns when a file in one of the folders was last written, renamed or removed.
kj::Maybe<kj::Date> lastChangeIn(std::initializer_list<kj::StringPtr> folders) {
  kj::Maybe<kj::Date> last;
  for (auto folder : folders) {
    struct stat found;
    if (stat(folder.cStr(), &found) != 0) continue;
    auto changed = kj::UNIX_EPOCH + found.st_mtim.tv_sec * kj::SECONDS +
                   found.st_mtim.tv_nsec * kj::NANOSECONDS;
    last = kj::max(changed, last.orDefault(changed));
  }
  return last;
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

kj::Promise<ApiAnswer> bestAnswer(kj::Vector<kj::Promise<ApiAnswer>> calls) {
  auto best = calls.empty() ? ApiAnswer::kUnresolved : ApiAnswer::kSilent;
  auto accepted = kj::newPromiseAndFulfiller<void>();
  for (auto& call : calls) {
    // Joined promises would run this only when all have resolved.
    call = call.then([&best, &fulfiller = *accepted.fulfiller](ApiAnswer answer) {
                 best = kj::max(best, answer);
                 if (answer == ApiAnswer::kAccepted) fulfiller.fulfill();
                 return answer;
               })
               .eagerlyEvaluate(nullptr);
  }
  co_await kj::joinPromises(calls.releaseAsArray())
      .ignoreResult()
      .exclusiveJoin(kj::mv(accepted.promise));
  co_return best;
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
    isAway = isAway && !isOwnApiIll(facts) && !isRefusalOfNode(*problem);
    node->causedElsewhere = node->causedElsewhere || isAway;
  }
}

void addMissing(kj::ArrayPtr<Duty> duties, kj::StringPtr service, kj::Maybe<kj::String> waitsFor) {
  KJ_IF_MAYBE (what, waitsFor) {
    for (auto& duty : duties) {
      if (duty.name != service) continue;
      duty.problem = kj::str("waits for ", *what);
      duty.causedElsewhere = false;
    }
  }
}

kj::Maybe<kj::String> whyPodsAreEarly(kj::Maybe<kj::Date> changed, kj::Date now) {
  KJ_IF_MAYBE (time, changed) {
    auto ago = now - *time;
    if (ago >= 0 * kj::SECONDS && ago < kPodsSettle) {
      return kj::str("the static pods were changed less than a minute ago");
    }
  }
  return nullptr;
}

// Each failure of a fetch is an event of the service.
bool awaitsImage(rpc::Service::Reader service) {
  using State = rpc::ServiceState;
  if (service.getState() != State::PREPARING) return false;
  bool waits = false, failed = false;
  for (auto event : service.getEvents()) {
    bool runs = event.getState() == State::RUNNING;
    auto text = event.getMessage();
    waits = text.startsWith("Waiting") && text != kAwaitsSettings;  // for something else
    failed = !runs && (failed || event.getState() == State::FAILED ||
                       strstr(text.cStr(), "retry") != nullptr);
  }
  return !waits && !failed;
}

// Throws if the node has no such service.
bool NodeTrialFacts::isCounted(kj::StringPtr service) {
  if (services.supervisor.isAwaited(service) || service == kKubeletService) return true;
  return service == kEtcdService && !core.store.list<rpc::EtcdConfigSpec>().empty();
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
    bool isOwn = isOfThisNode(address);
    calls.add(connectToApi(core.io.provider->getNetwork(), core.timer, kj::mv(address))
                  .then([isOwn](Answer answer) {
                    return isOwn && answer == Answer::kRefused ? Answer::kSilent : answer;
                  }));
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
  co_return co_await bestAnswer(kj::mv(calls));
}

bool NodeTrialFacts::isOfThisNode(kj::StringPtr server) {
  KJ_IF_MAYBE (endpoint, Endpoint::parse(server)) {
    if (endpoint->address.isLoopback()) return true;
    for (auto& own : currentAddresses(core.store)) {
      if (isSameHost(own, endpoint->address.toString())) return true;
    }
  }
  return false;
}

kj::Promise<ApiView> NodeTrialFacts::lookAtApi(config::Config::Reader before, bool ownNetwork) {
  kj::String own;
  KJ_IF_MAYBE (config, core.configReader.tryConfig(core.store)) {
    own = kj::str(config->getCluster().getControlPlane().getEndpoint());
  }
  ApiView view{.answer = co_await apiServers(own, true), .ownNetwork = ownNetwork};
  auto endpoint = kj::str(before.getCluster().getControlPlane().getEndpoint());
  if (view.answer != Answer::kAccepted && endpoint != own) {
    view.answerBefore = co_await apiServers(endpoint, false);
  }
  co_return kj::mv(view);
}

// etcd takes up its new settings by a restart, when the other voters permit it.
kj::Promise<void> NodeTrialFacts::addEtcd(TrialFacts& facts) {
  KJ_IF_MAYBE (config, core.store.tryGet<rpc::EtcdConfigSpec>(kEtcdService)) {
    if (config->getWaitsFor().size() > 0) {
      addMissing(facts.duties, kEtcdDuty, kj::str(config->getWaitsFor()));
      co_return;
    }
  } else KJ_IF_MAYBE (wanted, core.configReader.tryConfig(core.store)) {  // since the boot
    addMissing(facts.duties, kVoterDuty, whatEtcdWaitsFor(core.store, *wanted));
  }
  facts.notInEffect = co_await kubernetes.etcd.notInEffect(kNow, []() { return kj::String(); });
  facts.takenUpBy = kEtcdDuty;
}

// The kubelet takes up its new settings by a start.
void NodeTrialFacts::addKubelet(TrialFacts& facts) {
  auto effect = kubernetes.kubelet.effect();
  if (facts.notInEffect == nullptr) {
    facts.notInEffect = kj::mv(effect.notYet);
    facts.takenUpBy = kKubeletDuty;
  }
  bool waits = false;
  KJ_IF_MAYBE (config, core.configReader.tryConfig(core.store)) {
    auto missing = missingForKubelet(core.store, *config);
    waits = missing != nullptr;
    addMissing(facts.duties, kKubeletDuty, kj::mv(missing));
  }
  if (facts.scope.registered) {
    auto changed = lastChangeIn({kManifestsFolder, kSystemManifestsFolder});
    facts.tooEarly = whyPodsAreEarly(changed, core.clock.now());
  }
  for (auto id : {kKubeletService, kEtcdService}) {
    if (waits && id == kKubeletService) continue;
    if (isFetched(id) && isCounted(id)) facts.pulls = kj::str("the image of ", id);
  }
  KJ_IF_MAYBE (time, effect.runsFor) {
    if (*time < kKubeletSettles && facts.scope.registered) {
      facts.tooEarly = kj::str("the kubelet was started less than a minute ago");
    }
  }
}

// Returns false if the node has no such service, as a worker has no etcd.
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
    auto api = lookAtApi(before, ownNetwork).eagerlyEvaluate(nullptr);
    facts.duties = co_await duties(ownNetwork);
    facts.scope = dutyScopeOf(core.store);
    judgeNode(facts, co_await api);
    co_await addEtcd(facts);
    addKubelet(facts);
    co_await lookAtConnections(facts);
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    facts.notInEffect = kj::str("its state is not known: ", messageOf(*e));
    facts.takenUpBy = nullptr;
  }
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

// --- calls of clients

kj::Promise<kj::Vector<netlink::Connection>> NodeTrialFacts::connections() {
  return core.uv.blocking([]() { return netlink::connectionsTo(kApidPort); });
}

kj::Promise<void> NodeTrialFacts::lookAtConnections(const TrialFacts& facts) {
  if (!clientCalls.settles()) co_return;
  bool isAsWanted = false;
  for (auto& duty : facts.duties) {
    if (duty.name == kNetworkDuty) isAsWanted = duty.problem == nullptr;
  }
  kj::Vector<netlink::Connection> found;
  co_await connections().then([&](kj::Vector<netlink::Connection> list) { found = kj::mv(list); },
                              [](kj::Exception&&) {});  // isReached() tells
  auto ends = clientCalls.look(found, currentAddresses(core.store), isAsWanted, core.timer.now());
  if (ends.empty()) co_return;
  co_await core.uv.blocking([ends = kj::mv(ends)]() { return netlink::endConnections(ends); })
      .then([](size_t) {}, [&](kj::Exception&& e) { countAll(e); });
}

void NodeTrialFacts::countAll(const kj::Exception& e) {
  if (!countsAll) {
    log::warn("cannot list or end the connections of clients; each call counts",
              {{"error", messageOf(e)}});
  }
  countsAll = true;
}

kj::Promise<bool> NodeTrialFacts::isReached() {
  kj::Maybe<bool> counts;
  co_await connections().then(
      [&](kj::Vector<netlink::Connection> found) {
        counts = clientCalls.counts(found, currentAddresses(core.store));
      },
      [&](kj::Exception&& e) { countAll(e); });
  co_return countsAll || counts.orDefault(true);
}

}  // namespace talos::machined
