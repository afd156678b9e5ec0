#include "talosctl/kube/connect-kubernetes.h"

#include <random>

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "talosctl/kube/kubeconfig-file.h"

namespace talos::talosctl {
namespace {

constexpr auto kPortAnswer = 5 * kj::SECONDS;

// A route to a cluster.
struct KubeWay {
  kj::String address;
  kube::KubeDial dial;
};

// Several routes. The last successful route is tried first.
class KubeWays : public kj::Refcounted {
 public:
  KubeWays(kj::Vector<KubeWay> ways, kj::Function<void(kj::StringPtr)> reached)
      : ways(kj::mv(ways)), reached(kj::mv(reached)) {}

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    auto errors = kj::heapArray<kj::String>(ways.size());
    auto first = best;  // another call may change it meanwhile
    for (auto n : kj::indices(ways)) {
      auto i = n == 0 ? first : n <= first ? n - 1 : n;
      try {
        auto stream = co_await ways[i].dial();
        if (!connected || i != best) reached(ways[i].address);
        connected = true;
        best = i;
        co_return kj::mv(stream);
      } catch (...) {
        errors[i] = kj::str(messageOf(kj::getCaughtExceptionAsKj()));
      }
    }
    // For the first route, the client itself adds the address.
    for (auto i : kj::range(size_t(1), ways.size())) {
      errors[i] = kj::str(ways[i].address, ": ", errors[i]);
    }
    kj::throwFatalException(error(ErrorKind::kUnavailable, kj::strArray(errors, "; ")));
  }

 private:
  kj::Vector<KubeWay> ways;
  kj::Function<void(kj::StringPtr)> reached;
  size_t best = 0;
  bool connected = false;
};

kube::KubeDial anyOf(kj::Vector<KubeWay> all, kj::Function<void(kj::StringPtr)> reached) {
  auto ways = kj::refcounted<KubeWays>(kj::mv(all), kj::mv(reached));
  return [ways = kj::mv(ways)]() mutable {
    auto again = kj::addRef(*ways);
    auto& one = *again;
    return one.dial().attach(kj::mv(again));
  };
}

// Returns the port on which the endpoint's own API server listens: the kubeconfig's port may be
// that of a load balancer. Returns the default port if the endpoint does not report it. The
// resource is sensitive, but a user with access to the kubeconfig may read it.
kj::Promise<uint16_t> portOfEndpoint(Client& client, kj::Duration deadline) {
  auto request = client.node("").sensitiveResourcesRequest().send().getResources().getRequest();
  request.initKind().setType(typeName<rpc::ControlPlaneConfigSpec>());
  request.setId("kube-apiserver");
  kj::Promise<capnp::Response<rpc::Resources::GetResults>> pending = request.send();
  auto answer = within(client.deps.timer, kj::min(deadline, kPortAnswer), kj::mv(pending));
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
  DialDependencies dialing{deps.lowLevel, deps.port, deps.timer};
  kj::Vector<KubeWay> ways;
  ways.add(KubeWay{access.name(), kube::dialerOf(dialing, access)});
  if (route.orEndpoint) {
    auto server = kj::mv(access.host);
    auto port = access.port;
    access.port = co_await portOfEndpoint(client, deadline);
    auto add = [&](kj::StringPtr host) {
      if (host == server) return;
      access.host = kj::str(host);
      ways.add(KubeWay{access.name(), kube::dialerOf(dialing, access)});
    };
    add(client.endpoint());
    for (auto& endpoint : client.endpoints()) {
      if (endpoint != client.endpoint()) add(endpoint);
    }
    access.host = kj::mv(server);
    access.port = port;
  }
  auto dial = anyOf(kj::mv(ways), kj::mv(route.reached));
  auto random = [engine = std::minstd_rand(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
  co_return kj::heap<kube::KubeClient>(deps.timer, kj::mv(random), kj::mv(dial), kj::mv(access));
}

kj::Promise<kube::ReceivedKubeconfig> fetchKubeconfig(Client& client, kj::StringPtr node,
                                                      kj::Duration deadline) {
  auto pending = client.node(node).machineRequest().send().getMachine().kubeconfigRequest().send();
  using Answer = capnp::Response<rpc::Machine::KubeconfigResults>;
  return within(client.deps.timer, deadline, kj::Promise<Answer>(kj::mv(pending)))
      .then([](Answer&& answer) {
        pki::Pem text(kj::str(answer.getKubeconfig().asChars()));
        return kube::readReceivedKubeconfig(text, "the kubeconfig from this node");
      })
      .catch_([node = kj::str(node.size() > 0 ? node : client.endpoint())](
                  kj::Exception&& e) -> kj::Promise<kube::ReceivedKubeconfig> {
        return error(kindOf(e), kj::str(node, ": ", messageOf(e)));
      });
}

}  // namespace talos::talosctl
