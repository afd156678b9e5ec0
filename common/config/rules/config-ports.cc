// machine.metrics and machine.features.kubePrism: ports at which programs of the node listen.

#include <set>

#include "common/base/node-layout.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

constexpr size_t kShortestMetricsToken = 16, kLongestMetricsToken = 512;
constexpr size_t kFewCharactersOfToken = 6;  // different ones

// Default of the API server's --service-node-port-range. Rules of kube-proxy apply to connections
// to the loopback interface, too.
constexpr uint16_t kFirstNodePort = 30000, kLastNodePort = 32767;

struct TakenPort {
  uint16_t port;
  kj::StringPtr by;
};
constexpr TakenPort kTakenPorts[] = {
    {kApidPort, "the machine API"_kj}, {kTrustdPort, "trustd"_kj},
    {kRegistrydPort, "registryd"_kj},  {kEtcdPort, "etcd"_kj},
    {kEtcdPeerPort, "etcd"_kj},        {kApiServerPort, "Kubernetes"_kj},
    {10248, "the kubelet"_kj},         {10250, "the kubelet"_kj},
    {10249, "kube-proxy"_kj},          {10256, "kube-proxy"_kj},
    {10251, "kube-scheduler"_kj},      {10252, "kube-controller-manager"_kj},
    {10259, "kube-scheduler"_kj},      {10257, "kube-controller-manager"_kj},
};

kj::Maybe<kj::StringPtr> userOf(uint16_t port, Config::Reader config) {
  for (auto& taken : kTakenPorts) {
    if (taken.port == port) return taken.by;
  }
  if (port == localApiServerPort(config.getCluster())) return "kube-apiserver"_kj;
  return nullptr;
}

bool isPrintable(kj::StringPtr text) {
  for (char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

}  // namespace

void checkMetrics(Report& report, Config::Reader config) {
  constexpr auto kPath = "machine.metrics"_kj, kPort = "machine.metrics.port"_kj,
                 kToken = "machine.metrics.token"_kj;
  if (!report.isRead(kPath)) return;
  auto metrics = config.getMachine().getMetrics();
  auto port = metrics.getPort();
  if (report.isRead(kPort) || !report.has(kPort)) {
    if (port < kFirstUnprivilegedPort) {
      report.error(kPort, kj::str(port, " is not a valid port: apid has no privilege for it"),
                   "use 1024 to 65535, for example 50002");
    } else {
      KJ_IF_MAYBE (user, userOf(port, config)) {
        report.error(kPort, kj::str(port, " is the port of ", *user),
                     "use another one, for example 50002");
      }
    }
  }
  auto token = metrics.getToken();
  if (!report.has(kToken)) return;
  if (metrics.getPlain()) {
    report.error(kToken, kj::str("plain serves everybody, and without encryption"),
                 "remove plain or the token");
  } else if (report.isRead(kToken) && token.size() < kShortestMetricsToken) {
    report.error(kToken, kj::str("too short"), "use at least 16 characters");
  } else if (token.size() > kLongestMetricsToken) {
    report.error(kToken, kj::str("too long"), "use at most 512 characters");
  } else if (!isPrintable(token)) {
    report.error(kToken, kj::str("a character cannot be in a header of HTTP"),
                 "use printable ASCII without spaces");
  } else if (report.isRead(kToken)) {
    std::set<char> characters(token.begin(), token.end());
    if (characters.size() < kFewCharactersOfToken) {
      report.warn(kToken, kj::str("weak: it could be guessed"), "use characters by chance");
    }
  }
}

void checkKubePrism(Report& report, Config::Reader config) {
  constexpr auto kPort = "machine.features.kubePrism.port"_kj;
  auto machine = config.getMachine();
  auto balancer = machine.getFeatures().getKubePrism();
  if (!balancer.getEnabled() || (report.has(kPort) && !report.isRead(kPort))) return;
  auto tlsName = balancer.getTlsServerName();
  if (tlsName.size() > 0 && !isHost(tlsName)) {
    report.laterError("machine.features.kubePrism.tlsServerName",
                      kj::str("\"", tlsName, "\" is neither an IP address nor a DNS name"));
  }
  auto port = balancer.getPort();
  if (port < kFirstUnprivilegedPort) {
    return report.laterError(kPort,
                             kj::str(port, " is not a valid port: kubed has no privilege for it"),
                             "use 1024 to 65535, for example 7445");
  }
  auto user = userOf(port, config);
  if (machine.hasMetrics() && machine.getMetrics().getPort() == port) user = "machine.metrics"_kj;
  KJ_IF_MAYBE (name, user) {
    report.laterError(kPort, kj::str(port, " is the port of ", *name),
                      "use another one, for example 7445");
  } else if (port >= kFirstNodePort && port <= kLastNodePort) {
    report.warn(kPort,
                kj::str(port, " may be the NodePort of a Service, which then gets the connections"),
                "use another one, for example 7445");
  }
}

}  // namespace talos::config
