// machine.metrics.

#include <set>

#include "common/base/node-layout.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"

namespace talos::config {
namespace {

constexpr uint16_t kFirstPort = 1024;  // apid has no privilege to listen on lower ones
constexpr size_t kShortestMetricsToken = 16, kLongestMetricsToken = 512;
constexpr size_t kFewCharactersOfToken = 6;  // different ones

struct TakenPort {
  uint16_t port;
  kj::StringPtr by;
};
constexpr TakenPort kTakenPorts[] = {
    {kApidPort, "the machine API"_kj},
    {kTrustdPort, "trustd"_kj},
    {kEtcdPort, "etcd"_kj},
    {kEtcdPeerPort, "etcd"_kj},
    {kApiServerPort, "Kubernetes"_kj},
    {10248, "the kubelet"_kj},
    {10250, "the kubelet"_kj},
    {10249, "kube-proxy"_kj},
    {10256, "kube-proxy"_kj},
    {10251, "kube-scheduler"_kj},
    {10252, "kube-controller-manager"_kj},
    {10259, "kube-scheduler"_kj},
    {10257, "kube-controller-manager"_kj},
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
    if (port < kFirstPort) {
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

}  // namespace talos::config
