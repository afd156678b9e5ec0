#include "talosctl/dashboard/cluster-follower.h"

#include <algorithm>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/resource.h"
#include "common/net/dns-resolver.h"
#include "rpc/secret-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/dashboard/shown-node.h"
#include "talosctl/diagnose/diagnosis.h"
#include "talosctl/diagnose/gather-observations.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr auto kAskWithin = 10 * kj::SECONDS, kSurveyWithin = 35 * kj::SECONDS;
constexpr auto kMembersEvery = 5 * kj::SECONDS, kSurveyEvery = 60 * kj::SECONDS,
               kSurveyShown = 10 * kj::SECONDS, kDiagnosisEvery = 30 * kj::SECONDS,
               kLook = 1 * kj::SECONDS;
constexpr auto kRenewAfter = 8 * kj::SECONDS;
constexpr auto kBetweenRounds = 1 * kj::SECONDS;
constexpr size_t kMostNodes = 500;

kj::String contextOf(Invocation& call) {
  if (call.given("context")) return kj::str(call.text("context"));
  return kj::str(Talosconfig::load(configPath(call)).currentName());
}

}  // namespace

ClusterFollower::ClusterFollower(Invocation& call, kj::Duration interval)
    : client(call), call(call), interval(interval), context(contextOf(call)), tasks(*this) {
  auto held = client.get();
  for (auto& node : held->client.nodes()) add(node);
  if (nodes.empty()) add("");  // node of the endpoint
}

void ClusterFollower::add(kj::StringPtr address) {
  if (nodes.size() >= kMostNodes) return;
  auto& node = *nodes.add(kj::heap<NodeFollower>(client, address));
  if (started) tasks.add(node.follow(interval));
}

void ClusterFollower::start() {
  started = true;
  for (auto& node : nodes) tasks.add(node->follow(interval));
  tasks.add(followMembers());
  tasks.add(followSurvey());
  tasks.add(followDiagnosis());
  tasks.add(renewConnection());
}

kj::Promise<void> ClusterFollower::once() {
  size_t called = 0;
  // Members and Kubernetes name further nodes, which are then called, too.
  while (called < nodes.size()) {
    kj::Vector<kj::Promise<void>> waits;
    for (; called < nodes.size(); ++called) waits.add(nodes[called]->round(true));
    co_await kj::joinPromises(waits.releaseAsArray());
    if (survey != nullptr) continue;
    co_await kj::joinPromises(kj::arr(askMembers(), askSurvey(), askIssued()));
    discover();
  }
  auto pause = call.deps.timer.afterDelay(kBetweenRounds);
  co_await askDiagnosis();
  co_await pause;
  kj::Vector<kj::Promise<void>> waits;
  for (auto& node : nodes) waits.add(node->round(true));
  co_await kj::joinPromises(waits.releaseAsArray());
}

void ClusterFollower::look(kj::Maybe<size_t> node) {
  looksClosely = node != nullptr;
  KJ_IF_MAYBE (number, node) looked = kj::str(addressOf(*number));
  for (auto& one : nodes) one->look(looksClosely && one->target() == looked);
}

kj::StringPtr ClusterFollower::addressOf(size_t node) const {
  if (order.size() == 0) return nodes[0]->target();
  return nodes[order[node % order.size()]]->target();
}

size_t ClusterFollower::numberOf(kj::StringPtr address) const {
  for (auto i : kj::indices(order)) {
    if (nodes[order[i]]->target() == address) return i;
  }
  return 0;
}

size_t ClusterFollower::answering() const {
  size_t count = 0;
  for (auto& node : nodes) count += node->answers();
  return count;
}

// --- the cluster

kj::Maybe<NodeFollower&> ClusterFollower::controlPlane() {
  for (auto& node : nodes) {
    if (node->answers() && node->isControlPlane()) return *node;
  }
  return nullptr;
}

// Adds one node with these addresses, unless it is known.
void ClusterFollower::addUnknown(kj::ArrayPtr<const kj::String> addressesOfOne) {
  for (auto& address : addressesOfOne) {
    for (auto& node : nodes) {
      if (node->has(address)) return;
    }
  }
  for (auto& address : addressesOfOne) {
    if (asAddress(address) != nullptr) return add(address);
  }
}

void ClusterFollower::discover() {
  if (call.given("nodes")) return;
  KJ_IF_MAYBE (results, members) {
    for (auto member : results->getMembers()) {
      auto hosts = KJ_MAP(url, member.getPeerUrls()) {
        return kj::str(hostOf(url).host);
      };
      addUnknown(hosts);
    }
  }
  KJ_IF_MAYBE (results, survey) {
    for (auto node : results->getSurvey().getNodes()) {
      addUnknown(textsOf(node.getAddresses()));
    }
    // Certificates also name workers that have left the cluster, so they count only if Kubernetes
    // does not answer.
    return;
  }
  KJ_IF_MAYBE (results, issued) {
    for (auto one : results->getResources()) {
      ResourceOf<rpc::IssuedCertificateSpec> certificate(one);
      addUnknown(kj::arr(kj::str(certificate.getCaller())));
    }
  }
}

// Calls a control-plane node. `problem` says why there is no new answer; the previous answer stays.
template <typename Results, typename Request>
kj::Promise<void> ClusterFollower::ask(Kept<Results>& slot, kj::String& problem,
                                       kj::Duration timeout, Request request) {
  KJ_IF_MAYBE (node, controlPlane()) {
    auto held = client.get();
    try {
      co_await held->connect();  // the connection may be new
      kj::Promise<capnp::Response<Results>> answer =
          request(held->client.node(node->target())).send();
      slot = co_await within(call.deps.timer, timeout, kj::mv(answer));
      problem = kj::String();
    } catch (const kj::Exception& e) {
      problem = messageText(e);
    }
  } else {
    problem = kj::str("no control-plane node answers");
  }
}

kj::Promise<void> ClusterFollower::askIssued() {
  kj::String unknown;  // the known nodes are shown all the same
  co_await ask(issued, unknown, kAskWithin, [](rpc::Node::Client node) {
    auto request = node.resourcesRequest().send().getResources().listRequest();
    request.initKind().setType(typeName<rpc::IssuedCertificateSpec>());
    return request;
  });
}

kj::Promise<void> ClusterFollower::askMembers() {
  return ask(members, membersProblem, kAskWithin, [](rpc::Node::Client node) {
    return node.etcdRequest().send().getEtcd().membersRequest();
  });
}

kj::Promise<void> ClusterFollower::askSurvey() {
  return ask(survey, surveyProblem, kSurveyWithin, [](rpc::Node::Client node) {
    return node.kubernetesRequest().send().getKubernetes().surveyRequest();
  });
}

kj::Promise<void> ClusterFollower::askDiagnosis() {
  auto observations = co_await gatherObservations(call);
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  diagnose(observations->getRoot<rpc::Observations>().asReader(),
           message->initRoot<rpc::Diagnosis>());
  diagnosis = kj::mv(message);
}

kj::Promise<void> ClusterFollower::followMembers() {
  for (;;) {
    // At the start no node has answered yet.
    if (controlPlane() != nullptr || silentSince != nullptr) {
      co_await askMembers();
      discover();
      co_await call.deps.timer.afterDelay(kMembersEvery);
    }
    co_await call.deps.timer.afterDelay(kLook);
  }
}

kj::Promise<void> ClusterFollower::followSurvey() {
  kj::Maybe<kj::TimePoint> requested;
  for (;;) {
    auto every = clusterIsShown || survey == nullptr ? kSurveyShown : kSurveyEvery;
    auto now = call.deps.timer.now();
    bool due = requested == nullptr || now - KJ_ASSERT_NONNULL(requested) >= every;
    if (due && (controlPlane() != nullptr || silentSince != nullptr)) {
      requested = now;
      // Kubernetes may take long to report that it is unavailable.
      co_await askIssued();
      discover();
      co_await askSurvey();
      discover();
    }
    co_await call.deps.timer.afterDelay(kLook);
  }
}

kj::Promise<void> ClusterFollower::followDiagnosis() {
  for (;;) {
    if (clusterIsShown) {
      // Fails only without a talosconfig.
      co_await askDiagnosis().catch_([](kj::Exception&&) {});
      co_await call.deps.timer.afterDelay(kDiagnosisEvery);
    }
    co_await call.deps.timer.afterDelay(kLook);
  }
}

kj::Promise<void> ClusterFollower::renewConnection() {
  for (;;) {
    co_await call.deps.timer.afterDelay(kLook);
    auto now = call.deps.timer.now();
    if (answering() > 0) {
      silentSince = nullptr;
    } else if (silentSince == nullptr) {
      silentSince = now;
    } else if (now - KJ_ASSERT_NONNULL(silentSince) > kRenewAfter) {
      client.renew();
      silentSince = now;
    }
  }
}

// --- the picture

void ClusterFollower::sortNodes(kj::ArrayPtr<const rpc::DashboardNode::Reader> written) {
  order.clear();
  for (auto i : kj::indices(written)) order.add(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (written[a].getControlPlane() != written[b].getControlPlane()) {
      return written[a].getControlPlane();
    }
    return nameOf(written[a]) < nameOf(written[b]);
  });
}

kj::Own<capnp::MallocMessageBuilder> ClusterFollower::picture() {
  capnp::MallocMessageBuilder parts;
  auto unsorted = parts.initRoot<rpc::Dashboard>().initNodes(nodes.size());
  kj::Vector<rpc::DashboardNode::Reader> written;
  for (auto i : kj::indices(nodes)) {
    nodes[i]->write(unsorted[i]);
    written.add(unsorted[i].asReader());
  }
  sortNodes(written);
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  auto out = message->initRoot<rpc::Dashboard>();
  out.setTaken(dateText(call.deps.clock.now()));
  out.setContext(context);
  auto held = client.get();
  if (taskProblem.size() > 0) {
    out.setProblem(taskProblem);
  } else if (held->client.connected()) {
    out.setEndpoint(held->client.endpoint());
  } else if (silentSince != nullptr && written.size() > 0) {
    out.setProblem(kj::str("no node answers: ", written[order[0]].getError()));
  }
  auto list = out.initNodes(nodes.size());
  for (auto i : kj::indices(order)) list.setWithCaveats(i, written[order[i]]);
  KJ_IF_MAYBE (results, members) {
    out.setMembers(results->getMembers());
    out.setQuorum(results->getQuorum());
  }
  out.setMembersProblem(membersProblem);
  KJ_IF_MAYBE (results, survey) out.setSurvey(results->getSurvey());
  out.setSurveyProblem(surveyProblem);
  KJ_IF_MAYBE (found, diagnosis) out.setDiagnosis((*found)->getRoot<rpc::Diagnosis>());
  return message;
}

// The answers of nodes make no task fail; but after a bug of talosctl the cluster must not seem
// idle.
void ClusterFollower::taskFailed(kj::Exception&& e) {
  taskProblem = kj::str("the dashboard does not ask any more: ", messageText(e));
}

}  // namespace talos::talosctl::dashboard
