#include "talosctl/kube/connect-kubernetes.h"

#include <random>

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "talosctl/kube/fetch-kubeconfig.h"

namespace talos::talosctl {
namespace {

constexpr uint16_t kKubernetesPort = 6443;
constexpr auto kPortAnswer = 5 * kj::SECONDS;

// Two ways to one cluster. The one that led there last is tried first.
class KubeWays : public kj::Refcounted {
 public:
  // `where` the second one leads, for messages; of the first one the client says it.
  KubeWays(kube::KubeDial first, kube::KubeDial second, kj::String where)
      : ways{kj::mv(first), kj::mv(second)}, where(kj::mv(where)) {}

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    kj::Maybe<kj::Exception> failure;
    auto first = best;  // another dial may change it meanwhile
    try {
      co_return co_await ways[first]();
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    auto other = 1 - first;
    try {
      auto stream = co_await ways[other]();
      best = other;
      co_return kj::mv(stream);
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      auto named = messageOf(first == 0 ? KJ_ASSERT_NONNULL(failure) : e);
      auto both =
          kj::str(named, "; ", where, ": ", messageOf(first == 0 ? e : KJ_ASSERT_NONNULL(failure)));
      kj::throwFatalException(error(ErrorKind::kUnavailable, both));
    }
  }

 private:
  kube::KubeDial ways[2];
  kj::String where;
  unsigned best = 0;
};

kube::KubeDial eitherOf(kube::KubeDial first, kube::KubeDial second, kj::String where) {
  auto ways = kj::refcounted<KubeWays>(kj::mv(first), kj::mv(second), kj::mv(where));
  return [ways = kj::mv(ways)]() mutable {
    auto again = kj::addRef(*ways);
    auto& one = *again;
    return one.dial().attach(kj::mv(again));
  };
}

// Where the API server of the endpoint itself listens: the port of the kubeconfig may be that of a
// balancer. The usual one when the endpoint does not say.
kj::Promise<uint16_t> portOfEndpoint(Client& client, kj::Duration deadline) {
  auto request = client.node("").resourcesRequest().send().getResources().getRequest();
  request.initKind().setType(typeName<rpc::ControlPlaneConfigSpec>());
  request.setId("kube-apiserver");
  kj::Promise<capnp::Response<rpc::Resources::GetResults>> asked = request.send();
  auto answer = within(client.deps.timer, kj::min(deadline, kPortAnswer), kj::mv(asked));
  co_return co_await answer.then(
      [](capnp::Response<rpc::Resources::GetResults>&& found) {
        auto spec = found.getResource().getSpec().getAs<rpc::ControlPlaneConfigSpec>();
        auto port = spec.isApiServer() ? spec.getApiServer().getLocalPort() : 0;
        return static_cast<uint16_t>(port == 0 ? kKubernetesPort : port);
      },
      [](kj::Exception&&) { return kKubernetesPort; });
}

}  // namespace

kj::Promise<kj::Own<kube::KubeClient>> connectKubernetes(Client& client, kj::StringPtr node,
                                                         KubeRoute route, kj::Duration deadline) {
  co_await client.connect(kj::min(deadline, kDeadline));
  auto received = co_await fetchKubeconfig(client, node, deadline);
  auto access = received.access();
  if (route.server.size() > 0) {
    access.host = kj::str(route.server);
    access.port = kKubernetesPort;
  }
  auto& deps = client.deps;
  kube::DialDependencies dialing{deps.lowLevel, deps.port, deps.timer};
  auto dial = kube::dialerOf(dialing, access);
  if (route.orEndpoint && access.host != client.endpoint()) {
    auto host = kj::mv(access.host);
    auto port = access.port;
    access.host = kj::str(client.endpoint());
    access.port = co_await portOfEndpoint(client, deadline);
    dial = eitherOf(kj::mv(dial), kube::dialerOf(dialing, access),
                    kj::str(access.host, ":", access.port));
    access.host = kj::mv(host);
    access.port = port;
  }
  auto random = [engine = std::minstd_rand(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
  co_return kj::heap<kube::KubeClient>(deps.timer, kj::mv(random), kj::mv(dial), kj::mv(access));
}

}  // namespace talos::talosctl
