#include "talosctl/diagnose/gather-observations.h"

#include "common/base/error.h"
#include "common/net/resolver.h"
#include "common/tls/pki.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/diagnose/node-questions.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr auto kEndpointWithin = 10 * kj::SECONDS, kSurveyWithin = 25 * kj::SECONDS;

using Node = rpc::Observations::Node;

class Gathering {
 public:
  explicit Gathering(Invocation& call) : call(call), target(resolveTarget(call)) {}

  kj::Promise<kj::Own<capnp::MallocMessageBuilder>> run();

 private:
  struct Trouble {
    kj::String host, why;
    bool maintenance = false;
  };
  Invocation& call;
  Target target;
  int64_t notBefore = 0, notAfter = 0;
  kj::Maybe<kj::Own<Client>> client;
  kj::Vector<kj::Own<NodeQuestions>> nodes;
  kj::Vector<kj::String> down;  // named, while no endpoint answers
  kj::Vector<Trouble> troubles;
  kj::Maybe<capnp::Response<rpc::Kubernetes::SurveyResults>> survey;
  kj::String surveyNode, surveyProblem;

  Target only(kj::StringPtr host) const;
  kj::Promise<bool> connects();
  kj::Promise<void> probe(kj::StringPtr host);
  kj::Promise<kj::Maybe<kj::String>> withoutConfig(kj::StringPtr host);
  kj::Promise<void> ask(kj::Vector<kj::String> addresses);
  kj::Promise<void> askSurvey();
  kj::Vector<kj::String> others() const;
  bool isKnown(kj::StringPtr address) const;
  kj::Own<capnp::MallocMessageBuilder> written();
  void writeNodes(rpc::Observations::Builder out);
};

kj::Vector<kj::String> copyAll(kj::ArrayPtr<const kj::String> texts) {
  kj::Vector<kj::String> all;
  for (auto& text : texts) all.add(kj::str(text));
  return all;
}

// The same identity towards one host alone.
Target Gathering::only(kj::StringPtr host) const {
  auto one = resolveTarget(call);
  one.endpoints.clear();
  one.nodes.clear();
  one.endpoints.add(kj::str(host));
  return one;
}

kj::Promise<bool> Gathering::connects() {
  auto& made = *client.emplace(kj::heap<Client>(call.deps, resolveTarget(call)));
  return made.connect(call.deadline())
      .then([]() { return true; }, [](kj::Exception&&) { return false; });
}

// What a machine without a config answers to anybody; none: it has one, or is not there.
kj::Promise<kj::Maybe<kj::String>> Gathering::withoutConfig(kj::StringPtr host) {
  Target stranger{
      .endpoints = {}, .nodes = {}, .credentials = {}, .insecure = true, .fingerprints = {}};
  stranger.endpoints.add(kj::str(host));
  auto bare = kj::heap<Client>(call.deps, kj::mv(stranger));
  try {
    co_await bare->connect(kj::min(kEndpointWithin, call.deadline()));
    kj::Promise<capnp::Response<rpc::Status>> answer =
        bare->node("").machineRequest().send().getMachine().statusRequest().send();
    auto status =
        co_await within(call.deps.timer, kj::min(kEndpointWithin, call.deadline()), kj::mv(answer));
    if (status.getStage() != rpc::Status::Stage::MAINTENANCE) co_return nullptr;
    co_return kj::str("stage maintenance: ", kj::strArray(status.getProblems(), "; "));
  } catch (const kj::Exception&) {
    co_return nullptr;
  }
}

// Why this endpoint does not answer; nothing when it does.
kj::Promise<void> Gathering::probe(kj::StringPtr host) {
  kj::Maybe<kj::Exception> failure;
  auto one = kj::heap<Client>(call.deps, only(host));
  co_await one->connect(kj::min(kEndpointWithin, call.deadline())).catch_([&](kj::Exception&& e) {
    failure = kj::mv(e);
  });
  KJ_IF_MAYBE (e, failure) {
    Trouble trouble{kj::str(host), messageText(*e)};
    if (failureOf(trouble.why) == DialFailure::kCertificate) {
      auto bare = co_await withoutConfig(host);
      KJ_IF_MAYBE (text, bare) {
        trouble.maintenance = true;
        trouble.why = kj::mv(*text);
      }
    }
    troubles.add(kj::mv(trouble));
  }
}

kj::Promise<void> Gathering::ask(kj::Vector<kj::String> addresses) {
  kj::Vector<kj::Promise<void>> waits;
  for (auto& address : addresses) {
    auto& questions =
        nodes.add(kj::heap<NodeQuestions>(*KJ_ASSERT_NONNULL(client), kj::mv(address)));
    waits.add(questions->ask());
  }
  return kj::joinPromises(waits.releaseAsArray());
}

// Of all control-plane nodes at once; the first answer counts.
kj::Promise<void> Gathering::askSurvey() {
  kj::Vector<kj::String> problems;
  kj::Vector<kj::Promise<void>> waits;
  for (auto& node : nodes) {
    auto seen = node->seen();
    if (seen.getReach() != Node::Reach::ANSWERS || !seen.getControlPlane()) continue;
    auto address = seen.getAddress();
    auto remote = KJ_ASSERT_NONNULL(client)->node(address);
    kj::Promise<capnp::Response<rpc::Kubernetes::SurveyResults>> answer =
        remote.kubernetesRequest().send().getKubernetes().surveyRequest().send();
    waits.add(within(call.deps.timer, kj::min(kSurveyWithin, call.deadline()), kj::mv(answer))
                  .then(
                      [this, address](capnp::Response<rpc::Kubernetes::SurveyResults>&& results) {
                        if (survey != nullptr) return;
                        survey = kj::mv(results);
                        surveyNode = kj::str(address);
                      },
                      [&problems, address](kj::Exception&& e) {
                        problems.add(kj::str(address, ": ", messageText(e)));
                      }));
  }
  if (waits.size() == 0) {
    surveyProblem = kj::str("no control-plane node answers");
    co_return;
  }
  co_await kj::joinPromises(waits.releaseAsArray());
  surveyProblem = kj::strArray(problems, "; ");
}

bool Gathering::isKnown(kj::StringPtr address) const {
  for (auto& node : nodes) {
    auto seen = node->seen();
    if (seen.getAddress() == address) return true;
    for (auto own : seen.getNodeAddresses()) {
      if (own == address) return true;
    }
  }
  return false;
}

// Nodes that the cluster names and nobody has asked yet.
kj::Vector<kj::String> Gathering::others() const {
  kj::Vector<kj::String> found;
  auto add = [&](kj::StringPtr address) {
    if (asAddress(address) == nullptr || isKnown(address)) return;
    for (auto& one : found) {
      if (one == address) return;
    }
    found.add(kj::str(address));
  };
  for (auto& node : nodes) {
    for (auto member : node->seen().getMembers()) {
      for (auto url : member.getPeerUrls()) add(hostOf(url).host);
    }
  }
  KJ_IF_MAYBE (results, survey) {
    for (auto node : results->getSurvey().getNodes()) {
      bool known = false;
      for (auto address : node.getAddresses()) known = known || isKnown(address);
      if (!known && node.getAddresses().size() > 0) add(node.getAddresses()[0]);
    }
  }
  return found;
}

kj::Promise<kj::Own<capnp::MallocMessageBuilder>> Gathering::run() {
  try {
    auto info = pki::inspect(target.credentials.certificate);
    notBefore = (info.notBefore - kj::UNIX_EPOCH) / kj::SECONDS;
    notAfter = (info.notAfter - kj::UNIX_EPOCH) / kj::SECONDS;
  } catch (const kj::Exception&) {
    // Whoever connects with it says what is wrong with it.
  }
  if (!co_await connects()) {
    kj::Vector<kj::Promise<void>> probes;
    for (auto& endpoint : target.endpoints) probes.add(probe(endpoint));
    co_await kj::joinPromises(probes.releaseAsArray());
    down = copyAll(target.nodes);
    surveyProblem = kj::str("no endpoint answers");
    co_return written();
  }
  auto named = copyAll(target.nodes);
  if (named.empty()) named.add(kj::str());  // the endpoint itself
  co_await ask(kj::mv(named));
  co_await askSurvey();
  if (!call.given("nodes")) co_await ask(others());
  co_return written();
}

void Gathering::writeNodes(rpc::Observations::Builder out) {
  auto list = out.initNodes(nodes.size() + down.size());
  for (auto i : kj::indices(nodes)) list.setWithCaveats(i, nodes[i]->seen());
  for (auto i : kj::indices(down)) {
    auto node = list[nodes.size() + i];
    node.setAddress(down[i]);
    node.setReach(Node::Reach::SILENT);
    node.setWhy("no endpoint answers through which it is reached");
  }
  // Who does not answer is known by what others say of him.
  for (auto node : list) {
    if (node.getReach() == Node::Reach::ANSWERS) continue;
    auto address = kj::str(node.getAddress());
    for (auto one : out.asReader().getSurvey().getNodes()) {
      for (auto its : one.getAddresses()) {
        if (its == address && one.getControlPlane()) node.setControlPlane(true);
      }
    }
    for (auto& other : nodes) {
      for (auto member : other->seen().getMembers()) {
        for (auto url : member.getPeerUrls()) {
          if (hostOf(url).host == address) node.setControlPlane(true);
        }
      }
    }
  }
}

kj::Own<capnp::MallocMessageBuilder> Gathering::written() {
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  auto out = message->initRoot<rpc::Observations>();
  out.setNow(static_cast<int64_t>(nanoseconds(call.deps.clock.now())));
  out.setClientNotBefore(notBefore);
  out.setClientNotAfter(notAfter);
  KJ_IF_MAYBE (results, survey) {
    out.setSurvey(results->getSurvey());
    out.setSurveyNode(surveyNode);
  } else {
    out.setSurveyProblem(surveyProblem);
  }
  auto endpoints = out.initEndpoints(troubles.size());
  for (auto i : kj::indices(troubles)) {
    endpoints[i].setHost(troubles[i].host);
    endpoints[i].setWhy(troubles[i].why);
    endpoints[i].setMaintenance(troubles[i].maintenance);
  }
  writeNodes(out);
  return message;
}

}  // namespace

kj::Promise<kj::Own<capnp::MallocMessageBuilder>> gatherObservations(Invocation& call) {
  Gathering gathering(call);
  co_return co_await gathering.run();
}

}  // namespace talos::talosctl
