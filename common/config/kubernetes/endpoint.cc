#include "common/config/kubernetes/endpoint.h"

#include "common/net/ip.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

bool isAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// host[:port], [IPv6][:port]
struct HostAndPort {
  kj::String host;
  kj::Maybe<kj::String> port;
  kj::StringPtr problem;  // empty if there is no problem
};

HostAndPort splitBracketed(kj::StringPtr authority) {
  auto close = authority.findFirst(']').orDefault(0);
  auto host = kj::heapString(authority.slice(1, kj::max(close, size_t(1))));
  KJ_IF_MAYBE (ip, Ip::parse(host)) {
    if (ip->family() != AF_INET6) return {{}, {}, "only IPv6 addresses stand in brackets"_kj};
  } else {
    return {{}, {}, "there is no IPv6 address in the brackets"_kj};
  }
  auto behind = authority.slice(close + 1);
  if (behind.size() == 0) return {kj::mv(host), nullptr, nullptr};
  if (behind[0] != ':') return {{}, {}, "only a port can follow the bracket"_kj};
  return {kj::mv(host), kj::str(behind.slice(1)), nullptr};
}

HostAndPort split(kj::StringPtr authority) {
  for (char c : authority) {
    if (!isAlphanumeric(c) && "-._:[]%*"_kj.findFirst(c) == nullptr) {
      return {{}, {}, "the host has a character that no host has"_kj};
    }
  }
  if (authority.startsWith("[")) return splitBracketed(authority);
  size_t colons = 0;
  for (char c : authority) colons += c == ':';
  if (colons > 1) return {{}, {}, "an IPv6 address must stand in brackets"_kj};
  KJ_IF_MAYBE (colon, authority.findFirst(':')) {
    return {kj::heapString(authority.slice(0, *colon)), kj::str(authority.slice(*colon + 1)),
            nullptr};
  }
  return {kj::str(authority), nullptr, nullptr};
}

// Returns the length of the scheme before "://"; 0 if there is none.
size_t schemeLength(kj::StringPtr url) {
  for (size_t i = 0; i + 2 < url.size(); ++i) {
    if (url[i] == ':') return url[i + 1] == '/' && url[i + 2] == '/' ? i : 0;
    if (!isAlphanumeric(url[i]) && url[i] != '+' && url[i] != '-' && url[i] != '.') return 0;
  }
  return 0;
}

}  // namespace

uint16_t localApiServerPort(Cluster::Reader cluster) {
  auto port = cluster.getControlPlane().getLocalAPIServerPort();
  return port == 0 ? kApiServerPort : port;
}

bool hasBalancer(Config::Reader config) {
  auto balancer = config.getMachine().getFeatures().getKubePrism();
  return balancer.getEnabled() && balancer.getPort() >= kFirstUnprivilegedPort;
}

kj::String apiServerOfNode(Config::Reader config) {
  auto balancer = config.getMachine().getFeatures().getKubePrism();
  if (hasBalancer(config)) return kj::str("https://", kBalancerHost, ":", balancer.getPort());
  return kj::str(config.getCluster().getControlPlane().getEndpoint());
}

EndpointResult parseEndpoint(kj::StringPtr url) {
  EndpointResult result;
  auto scheme = schemeLength(url);
  if (scheme == 0) {
    result.problem = kj::str("\"", url, "\": the scheme is missing");
    return result;
  }
  auto rest = url.slice(scheme + 3);
  size_t end = 0;
  while (end < rest.size() && rest[end] != '/' && rest[end] != '?' && rest[end] != '#') ++end;
  auto parts = split(kj::heapString(rest.slice(0, end)));
  result.value.scheme = kj::heapString(url.slice(0, scheme));
  result.value.host = kj::mv(parts.host);
  if (parts.problem.size() > 0) {
    result.problem = kj::str("\"", url, "\": ", parts.problem);
  } else if (result.value.host.size() == 0) {
    result.problem = kj::str("\"", url, "\": the host is missing");
  }
  KJ_IF_MAYBE (text, parts.port) {
    result.value.port = parsePort(*text);
    if (result.value.port == nullptr) {
      result.problem = kj::str("\"", url, "\": the port must be 1 to 65535");
    }
  }
  return result;
}

}  // namespace talos::config
