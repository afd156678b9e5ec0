#include "talosctl/diagnose/gather-observations.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/resource.h"
#include "common/net/dns-resolver.h"
#include "common/tls/pki.h"
#include "rpc/secret-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/diagnose/node-questions.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostContexts = 16;  // that are tried
constexpr auto kEndpointTimeout = 10 * kj::SECONDS, kSurveyTimeout = 25 * kj::SECONDS;

class Gathering {
 public:
  explicit Gathering(Invocation& call) : call(call), target(resolveTarget(call)) {}

  kj::Promise<kj::Own<capnp::MallocMessageBuilder>> run();

 private:
  struct FailedEndpoint {
    kj::String host, error;
    bool maintenance = false;
    kj::Vector<kj::String> contexts = {};
  };
  Invocation& call;
  Target target;
  int64_t notBefore = 0, notAfter = 0;
  kj::String caHash;  // of the talosconfig's CA
  kj::Maybe<kj::Own<Client>> client;
  kj::Vector<kj::Own<NodeQuestions>> nodes;
  kj::Vector<kj::String> unreachable;  // named nodes, if no endpoint answers
  kj::Vector<FailedEndpoint> failed;
  kj::Maybe<capnp::Response<rpc::Kubernetes::SurveyResults>> survey;
  kj::String surveyNode, surveyProblem;
  struct RefusedNode {
    kj::String address;
    kj::Vector<kj::String> contexts;
  };
  kj::Vector<RefusedNode> refused;

  Target only(kj::StringPtr host) const;
  kj::Promise<void> connect(Client& to, kj::Duration limit);
  kj::Promise<bool> connect();
  kj::Promise<void> probe(kj::StringPtr host);
  kj::Promise<kj::Maybe<kj::String>> maintenanceStatus(kj::StringPtr host);
  kj::Promise<kj::Vector<kj::String>> otherContexts(kj::StringPtr host);
  kj::Promise<void> tryContexts();
  kj::Promise<void> ask(kj::Vector<kj::String> addresses);
  kj::Promise<void> askSurvey();
  kj::Vector<kj::String> otherNodes() const;
  kj::Promise<void> askWorkers();
  kj::Promise<void> addCallers(rpc::Node::Client node, kj::Vector<kj::String>& callers);
  bool isKnown(kj::StringPtr address) const;
  kj::Own<capnp::MallocMessageBuilder> write();
  void writeNodes(rpc::Observations::Builder out);
};

kj::Vector<kj::String> copyAll(kj::ArrayPtr<const kj::String> texts) {
  kj::Vector<kj::String> all;
  for (auto& text : texts) all.add(kj::str(text));
  return all;
}

// Returns a target with the same identity and a single host.
Target Gathering::only(kj::StringPtr host) const {
  auto one = resolveTarget(call);
  one.endpoints.clear();
  one.nodes.clear();
  one.endpoints.add(kj::str(host));
  return one;
}

// Connects, and waits for an answer: a server of TLS 1.3 refuses the client's certificate after the
// handshake (RFC 8446, 4.4.2.4). Rejects with no other error of the answer.
kj::Promise<void> Gathering::connect(Client& to, kj::Duration limit) {
  co_await to.connect(limit);
  kj::Maybe<kj::Exception> refusal;
  kj::Promise<capnp::Response<rpc::Version>> answer =
      to.node("").machineRequest().send().getMachine().versionRequest().send();
  co_await within(call.deps.timer, kj::min(kEndpointTimeout, limit), kj::mv(answer))
      .then([](capnp::Response<rpc::Version>&&) {},
            [&](kj::Exception&& e) {
              if (isTrustFailure(failureOf(messageText(e)))) refusal = kj::mv(e);
            });
  KJ_IF_MAYBE (e, refusal) kj::throwFatalException(kj::mv(*e));
}

kj::Promise<bool> Gathering::connect() {
  auto& made = *client.emplace(kj::heap<Client>(call.deps, resolveTarget(call)));
  return connect(made, call.deadline())
      .then([]() { return true; }, [](kj::Exception&&) { return false; });
}

// Returns the status that a machine without a config shows to any client; nullptr if it has a
// config, or does not answer.
kj::Promise<kj::Maybe<kj::String>> Gathering::maintenanceStatus(kj::StringPtr host) {
  Target stranger{
      .endpoints = {}, .nodes = {}, .credentials = {}, .insecure = true, .fingerprints = {}};
  stranger.endpoints.add(kj::str(host));
  auto bare = kj::heap<Client>(call.deps, kj::mv(stranger));
  try {
    co_await bare->connect(kj::min(kEndpointTimeout, call.deadline()));
    kj::Promise<capnp::Response<rpc::Status>> answer =
        bare->node("").machineRequest().send().getMachine().statusRequest().send();
    auto status = co_await within(call.deps.timer, kj::min(kEndpointTimeout, call.deadline()),
                                  kj::mv(answer));
    if (status.getStage() != rpc::Status::Stage::MAINTENANCE) co_return nullptr;
    co_return kj::str("stage maintenance: ", kj::strArray(status.getProblems(), "; "));
  } catch (const kj::Exception&) {
    co_return nullptr;
  }
}

// Records the error if this endpoint does not answer.
kj::Promise<void> Gathering::probe(kj::StringPtr host) {
  kj::Maybe<kj::Exception> failure;
  auto one = kj::heap<Client>(call.deps, only(host));
  co_await connect(*one, kj::min(kEndpointTimeout, call.deadline())).catch_([&](kj::Exception&& e) {
    failure = kj::mv(e);
  });
  KJ_IF_MAYBE (e, failure) {
    FailedEndpoint endpoint{kj::str(host), messageText(*e)};
    if (isTrustFailure(failureOf(endpoint.error))) {
      auto bare = co_await maintenanceStatus(host);
      KJ_IF_MAYBE (text, bare) {
        endpoint.maintenance = true;
        endpoint.error = kj::mv(*text);
      } else {
        endpoint.contexts = co_await otherContexts(host);
      }
    }
    failed.add(kj::mv(endpoint));
  }
}

// Returns the names of the other contexts of the talosconfig with which this host answers. Their
// certificates are shown only to a server that the context's CA has certified.
kj::Promise<kj::Vector<kj::String>> Gathering::otherContexts(kj::StringPtr host) {
  kj::Vector<kj::String> names;
  auto config = Talosconfig::load(configPath(call));
  auto current = call.text("context").size() > 0 ? call.text("context") : config.currentName();
  kj::Vector<kj::Own<Client>> clients;
  kj::Vector<kj::Promise<void>> tries;
  for (auto& entry : config.contexts()) {
    if (entry.key == current || tries.size() >= kMostContexts) continue;
    Target other{.endpoints = {}, .nodes = {}, .credentials = {}, .fingerprints = {}};
    other.endpoints.add(kj::str(host));
    try {
      other.credentials = entry.value.credentials();
      clients.add(kj::heap<Client>(call.deps, kj::mv(other)));
    } catch (const kj::Exception&) {
      continue;  // an incomplete context
    }
    tries.add(clients.back()
                  ->connect(kj::min(kEndpointTimeout, call.deadline()))
                  .then([&names, name = kj::str(entry.key)]() mutable { names.add(kj::mv(name)); },
                        [](kj::Exception&&) {}));
  }
  co_await kj::joinPromises(tries.releaseAsArray());
  co_return kj::mv(names);
}

// Finds out for each node that does not trust the endpoint if another context is that of its
// cluster.
kj::Promise<void> Gathering::tryContexts() {
  for (auto& node : nodes) {
    auto observed = node->observed();
    if (observed.getReach() != Reach::REFUSED || observed.getAddress().size() == 0) continue;
    auto names = co_await otherContexts(observed.getAddress());
    refused.add(RefusedNode{kj::str(observed.getAddress()), kj::mv(names)});
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

// Requests the survey from all control-plane nodes at once; the first answer counts.
kj::Promise<void> Gathering::askSurvey() {
  kj::Vector<kj::String> problems;
  kj::Vector<kj::Promise<void>> waits;
  for (auto& node : nodes) {
    auto observed = node->observed();
    if (observed.getReach() != Reach::ANSWERS || !observed.getControlPlane()) continue;
    auto address = observed.getAddress();
    auto remote = KJ_ASSERT_NONNULL(client)->node(address);
    kj::Promise<capnp::Response<rpc::Kubernetes::SurveyResults>> answer =
        remote.kubernetesRequest().send().getKubernetes().surveyRequest().send();
    waits.add(within(call.deps.timer, kj::min(kSurveyTimeout, call.deadline()), kj::mv(answer))
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
    auto observed = node->observed();
    if (observed.getAddress() == address || lists(observed.getNodeAddresses(), address))
      return true;
  }
  return false;
}

// Returns nodes that the cluster names and that have not been called yet.
kj::Vector<kj::String> Gathering::otherNodes() const {
  kj::Vector<kj::String> found;
  auto add = [&](kj::StringPtr address) {
    if (asAddress(address) == nullptr || isKnown(address)) return;
    for (auto& one : found) {
      if (one == address) return;
    }
    found.add(kj::str(address));
  };
  for (auto& node : nodes) {
    for (auto member : node->observed().getMembers()) {
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

// Adds the nodes to which trustd of this node has issued certificates that are still valid.
kj::Promise<void> Gathering::addCallers(rpc::Node::Client node, kj::Vector<kj::String>& callers) {
  auto request = node.resourcesRequest().send().getResources().listRequest();
  request.initKind().setType(typeName<rpc::IssuedCertificateSpec>());
  kj::Promise<capnp::Response<rpc::Resources::ListResults>> answer = request.send();
  auto issued =
      co_await within(call.deps.timer, kj::min(kEndpointTimeout, call.deadline()), kj::mv(answer));
  for (auto one : issued.getResources()) {
    ResourceOf<rpc::IssuedCertificateSpec> certificate(one);
    auto end = parseTimestamp(certificate.getNotAfter()).orDefault(kj::UNIX_EPOCH);
    kj::StringPtr caller = certificate.getCaller();
    bool valid = end > call.deps.clock.now() && asAddress(caller) != nullptr;
    if (valid && !isKnown(caller)) isFirst(callers, caller);
  }
}

// Calls workers that Kubernetes does not name, because it does not answer or their kubelets have
// not registered them. Workers without an answer are left out, because a worker that has left the
// cluster still holds a certificate.
kj::Promise<void> Gathering::askWorkers() {
  kj::Vector<kj::String> callers;
  kj::Vector<kj::Promise<void>> waits;
  for (auto& node : nodes) {
    auto observed = node->observed();
    if (observed.getReach() != Reach::ANSWERS || !observed.getControlPlane()) continue;
    auto remote = KJ_ASSERT_NONNULL(client)->node(observed.getAddress());
    waits.add(addCallers(kj::mv(remote), callers).catch_([](kj::Exception&&) {}));
  }
  co_await kj::joinPromises(waits.releaseAsArray());
  auto others = kj::mv(nodes);
  nodes = {};
  co_await ask(kj::mv(callers));
  auto workers = kj::mv(nodes);
  nodes = kj::mv(others);
  for (auto& worker : workers) {
    auto observed = worker->observed();
    bool known = false;  // known by another of its addresses
    for (auto address : observed.getNodeAddresses()) known = known || isKnown(address);
    if (observed.getReach() == Reach::ANSWERS && !known) nodes.add(kj::mv(worker));
  }
}

kj::Promise<kj::Own<capnp::MallocMessageBuilder>> Gathering::run() {
  try {
    auto info = pki::inspect(target.credentials.certificate);
    notBefore = (info.notBefore - kj::UNIX_EPOCH) / kj::SECONDS;
    notAfter = (info.notAfter - kj::UNIX_EPOCH) / kj::SECONDS;
    caHash = pki::authorityHash(target.credentials.authorities);
  } catch (const kj::Exception&) {
    // A connection with this certificate fails with its own error.
  }
  if (!co_await connect()) {
    kj::Vector<kj::Promise<void>> probes;
    for (auto& endpoint : target.endpoints) probes.add(probe(endpoint));
    co_await kj::joinPromises(probes.releaseAsArray());
    unreachable = copyAll(target.nodes);
    surveyProblem = kj::str("no endpoint answers");
    co_return write();
  }
  auto named = copyAll(target.nodes);
  if (named.empty()) named.add(kj::str());  // the endpoint itself
  co_await ask(kj::mv(named));
  co_await askSurvey();
  if (!call.given("nodes")) {
    co_await ask(otherNodes());
    co_await askWorkers();
  }
  co_await tryContexts();
  co_return write();
}

void Gathering::writeNodes(rpc::Observations::Builder out) {
  auto list = out.initNodes(nodes.size() + unreachable.size());
  for (auto i : kj::indices(nodes)) list.setWithCaveats(i, nodes[i]->observed());
  for (auto i : kj::indices(unreachable)) {
    auto node = list[nodes.size() + i];
    node.setAddress(unreachable[i]);
    node.setReach(Reach::SILENT);
    node.setError("it cannot be reached: no endpoint answers");
  }
  for (auto node : list) {
    for (auto& one : refused) {
      if (kj::str(node.getAddress()) != one.address) continue;
      fillTexts(node.initContexts(one.contexts.size()), one.contexts);
    }
  }
  // The other nodes know if a node without an answer is a control-plane node.
  for (auto node : list) {
    if (node.getReach() == Reach::ANSWERS) continue;
    auto address = kj::str(node.getAddress());
    for (auto one : out.asReader().getSurvey().getNodes()) {
      if (one.getControlPlane() && lists(one.getAddresses(), address)) node.setControlPlane(true);
    }
    for (auto& other : nodes) {
      for (auto member : other->observed().getMembers()) {
        for (auto url : member.getPeerUrls()) {
          if (hostOf(url).host == address) node.setControlPlane(true);
        }
      }
    }
  }
}

kj::Own<capnp::MallocMessageBuilder> Gathering::write() {
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  auto out = message->initRoot<rpc::Observations>();
  out.setNow(static_cast<int64_t>(nanoseconds(call.deps.clock.now())));
  out.setClientNotBefore(notBefore);
  out.setClientNotAfter(notAfter);
  out.setClientCaHash(caHash);
  KJ_IF_MAYBE (results, survey) {
    out.setSurvey(results->getSurvey());
    out.setSurveyNode(surveyNode);
  } else {
    out.setSurveyProblem(surveyProblem);
  }
  auto endpoints = out.initEndpoints(failed.size());
  for (auto i : kj::indices(failed)) {
    endpoints[i].setHost(failed[i].host);
    endpoints[i].setError(failed[i].error);
    endpoints[i].setMaintenance(failed[i].maintenance);
    fillTexts(endpoints[i].initContexts(failed[i].contexts.size()), failed[i].contexts);
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
