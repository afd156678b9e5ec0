#include "talosctl/health/cluster-observer.h"

#include "common/health/node-facts.h"
#include "common/kube/survey.h"
#include "talosctl/kube/connect-kubernetes.h"

namespace talos::talosctl {
namespace {

// Returns the facts in the order of `nodes`. Connects within the same deadline if there is no
// connection; if this fails, every node counts as silent, with the same reason.
kj::Promise<kj::Array<NodeFacts>> requestFacts(Client& client, kj::ArrayPtr<const kj::String> nodes,
                                               kj::Duration deadline) {
  kj::Maybe<kj::String> unreached;
  try {
    co_await client.connect(deadline);
  } catch (...) {
    unreached = messageOf(kj::getCaughtExceptionAsKj());
  }
  auto all = kj::heapArrayBuilder<kj::Promise<NodeFacts>>(nodes.size());
  for (auto& node : nodes) {
    KJ_IF_MAYBE (error, unreached) {
      all.add(silentFacts(node, *error));
    } else {
      all.add(factsOf(client.deps.timer, client.node(node), kj::str(node), deadline,
                      noAnswerWithin(deadline)));
    }
  }
  co_return co_await kj::joinPromises(all.finish());
}

}  // namespace

kj::Promise<kj::Array<NodeFacts>> NodeObserver::nodes(kj::ArrayPtr<const kj::String> names,
                                                      kj::Duration deadline) {
  return requestFacts(client, names, deadline);
}

kj::Promise<HealthObserver::Survey> NodeObserver::survey(kj::Duration deadline) {
  using Answer = capnp::Response<rpc::Kubernetes::SurveyResults>;
  co_await client.connect(kj::min(deadline, kDeadline));
  auto request = client.node(node).kubernetesRequest().send().getKubernetes().surveyRequest();
  auto answer =
      kj::heap(co_await within(client.deps.timer, deadline, kj::Promise<Answer>(request.send())));
  auto survey = answer->getSurvey();
  co_return Survey{survey, kj::mv(answer)};
}

kj::Promise<kj::Array<NodeFacts>> ApiObserver::nodes(kj::ArrayPtr<const kj::String> names,
                                                     kj::Duration deadline) {
  return requestFacts(client, names, deadline);
}

kj::Promise<HealthObserver::Survey> ApiObserver::survey(kj::Duration deadline) {
  if (kubernetes == nullptr) {
    KubeRoute route{.server = server,
                    .orEndpoint = server.size() == 0,
                    .reached = [this](kj::StringPtr address) { reached(address); }};
    kubernetes = co_await connectKubernetes(client, node, kj::mv(route), deadline);
  }
  auto& one = *KJ_ASSERT_NONNULL(kubernetes);
  auto message =
      co_await within(client.deps.timer, deadline, kube::readSurvey(client.deps.timer, one));
  auto survey = message->getRoot<rpc::Survey>().asReader();
  co_return Survey{survey, kj::mv(message)};
}

}  // namespace talos::talosctl
