#include "talosctl/health/cluster-observer.h"

#include <random>

#include "common/kube/survey.h"
#include "talosctl/kube/fetch-kubeconfig.h"

namespace talos::talosctl {
namespace {

constexpr uint16_t kKubernetesPort = 6443;

}  // namespace

kj::Promise<kj::Array<NodeFacts>> NodeObserver::nodes(kj::ArrayPtr<const kj::String> names,
                                                      kj::Duration deadline) {
  return askFacts(client, names, deadline);
}

kj::Promise<HealthObserver::Survey> NodeObserver::survey(kj::Duration deadline) {
  using Answer = capnp::Response<rpc::Kubernetes::SurveyResults>;
  co_await client.connect(kj::min(deadline, kDeadline));
  auto asked = client.node(node).kubernetesRequest().send().getKubernetes().surveyRequest().send();
  auto answer =
      kj::heap(co_await within(client.deps.timer, deadline, kj::Promise<Answer>(kj::mv(asked))));
  auto survey = answer->getSurvey();
  co_return Survey{survey, kj::mv(answer)};
}

kj::Promise<kj::Array<NodeFacts>> ApiObserver::nodes(kj::ArrayPtr<const kj::String> names,
                                                     kj::Duration deadline) {
  return askFacts(client, names, deadline);
}

kj::Promise<void> ApiObserver::connect(kj::Duration deadline) {
  co_await client.connect(kj::min(deadline, kDeadline));
  auto text = co_await fetchKubeconfig(client, node, deadline);
  auto access = kube::readAccess(text, "the node's kubeconfig");
  if (server.size() > 0) {
    access.host = kj::str(server);
    access.tlsName = kj::str(server);
    access.port = kKubernetesPort;
  }
  auto& deps = client.deps;
  auto dial = kube::dialerOf({deps.lowLevel, deps.port, deps.timer}, access);
  auto random = [engine = std::minstd_rand(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
  kubernetes = kj::heap<kube::KubeClient>(deps.timer, kj::mv(random), kj::mv(dial), kj::mv(access));
}

kj::Promise<HealthObserver::Survey> ApiObserver::survey(kj::Duration deadline) {
  if (kubernetes == nullptr) co_await connect(deadline);
  auto& one = *KJ_ASSERT_NONNULL(kubernetes);
  auto message =
      co_await within(client.deps.timer, deadline, kube::readSurvey(client.deps.timer, one));
  auto survey = message->getRoot<rpc::Survey>().asReader();
  co_return Survey{survey, kj::mv(message)};
}

}  // namespace talos::talosctl
