#include "talosctl/kube/connect-kubernetes.h"

#include <random>

#include "common/base/error.h"
#include "talosctl/kube/fetch-kubeconfig.h"

namespace talos::talosctl {
namespace {

constexpr uint16_t kKubernetesPort = 6443;

// Two ways to one cluster. The one that led there last is tried first.
class KubeWays : public kj::Refcounted {
 public:
  KubeWays(kube::KubeDial first, kube::KubeDial second) : ways{kj::mv(first), kj::mv(second)} {}

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    kj::Maybe<kj::Exception> why;
    auto first = best;  // another dial may change it meanwhile
    try {
      co_return co_await ways[first]();
    } catch (...) {
      why = kj::getCaughtExceptionAsKj();
    }
    auto other = 1 - first;
    try {
      auto stream = co_await ways[other]();
      best = other;
      co_return kj::mv(stream);
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      auto both = kj::str(messageOf(KJ_ASSERT_NONNULL(why)), "; ", messageOf(e));
      kj::throwFatalException(error(ErrorKind::kUnavailable, both));
    }
  }

 private:
  kube::KubeDial ways[2];
  unsigned best = 0;
};

kube::KubeDial eitherOf(kube::KubeDial first, kube::KubeDial second) {
  auto ways = kj::refcounted<KubeWays>(kj::mv(first), kj::mv(second));
  return [ways = kj::mv(ways)]() mutable {
    auto again = kj::addRef(*ways);
    auto& one = *again;
    return one.dial().attach(kj::mv(again));
  };
}

}  // namespace

kj::Promise<kj::Own<kube::KubeClient>> connectKubernetes(Client& client, kj::StringPtr node,
                                                         KubeRoute route, kj::Duration deadline) {
  co_await client.connect(kj::min(deadline, kDeadline));
  auto text = co_await fetchKubeconfig(client, node, deadline);
  auto access = kube::readAccess(text, "the node's kubeconfig");
  if (route.server.size() > 0) {
    access.host = kj::str(route.server);
    access.port = kKubernetesPort;
  }
  auto& deps = client.deps;
  kube::DialEdges edges{deps.lowLevel, deps.port, deps.timer};
  auto dial = kube::dialerOf(edges, access);
  if (route.orEndpoint && access.host != client.endpoint()) {
    auto host = kj::mv(access.host);
    auto port = access.port;
    access.host = kj::str(client.endpoint());
    access.port = kKubernetesPort;
    dial = eitherOf(kj::mv(dial), kube::dialerOf(edges, access));
    access.host = kj::mv(host);
    access.port = port;
  }
  auto random = [engine = std::minstd_rand(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
  co_return kj::heap<kube::KubeClient>(deps.timer, kj::mv(random), kj::mv(dial), kj::mv(access));
}

}  // namespace talos::talosctl
