#include "tests/kubernetes/rotated-users.h"

#include <filesystem>
#include <fstream>

#include "common/kube/kube-access.h"
#include "common/kube/kubeconfig.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "tests/harness/network-server.h"

namespace talos {

using harness::Background;
using harness::contains;
using harness::eventually;
using harness::Result;
using harness::slurp;

namespace {

constexpr uint16_t kFirstPort = 9443;
constexpr double kReached = 120;  // s
constexpr const char* kPath = "/apis/aggregated.example.org";

std::string objects(unsigned port) {
  auto number = std::to_string(port);
  return R"(apiVersion: v1
kind: Service
metadata: {name: aggregated}
spec: {ports: [{port: 443, targetPort: )" +
         number + R"(}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: aggregated}
subsets: [{addresses: [{ip: 10.5.0.1}], ports: [{port: )" +
         number + R"(}]}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: )" +
         AggregatedApi::kService + R"(}
spec:
  group: aggregated.example.org
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {name: aggregated, namespace: default}
)";
}

// The version of the API is the number of the server, so that a caller sees which one answered.
struct VersionService final : public kj::HttpService {
  VersionService(kj::AsyncIoContext& io, TestHttpServer::Options options)
      : number(options.port - kFirstPort + 1), server(io, *headers, *this, options) {}

  unsigned number, answered = 0;
  kj::Own<kj::HttpHeaderTable> headers = kj::HttpHeaderTable::Builder().build();
  TestHttpServer server;

  kj::Promise<void> request(kj::HttpMethod, kj::StringPtr url, const kj::HttpHeaders&,
                            kj::AsyncInputStream&, Response& response) override {
    bool found = url == kj::str(kPath, "/v1");
    auto body = found ? kj::str(number) : kj::str("not found");
    auto stream = response.send(found ? 200 : 404, found ? "OK"_kj : "Not Found"_kj,
                                kj::HttpHeaders(*headers), body.size());
    co_await stream->write(body.begin(), body.size());
    if (found) ++answered;
  }
};

}  // namespace

struct AggregatedApi::Server {
  kj::Vector<kj::TlsCertificate> authorities;
  harness::NetworkServer<VersionService, unsigned> http;

  Server(const KubeCluster& cluster, TestHttpServer::Options options, const std::string& published)
      : authorities(parsed(published)),
        http(cluster.talos, with(options), [](auto& service) { return service.answered; }) {}

 private:
  static kj::Vector<kj::TlsCertificate> parsed(const std::string& pem) {
    kj::Vector<kj::TlsCertificate> result;
    for (auto& one : pki::certificatesIn(pem.c_str())) result.add(kj::StringPtr(one));
    return result;
  }
  TestHttpServer::Options with(TestHttpServer::Options options) {
    options.clientAuthorities = authorities;
    return options;
  }
};

AggregatedApi::AggregatedApi(const KubeCluster& cluster) : cluster(cluster) {
  auto made = pki::makeKey(pki::KeyType::kEcdsaP256);
  pki::LeafOptions options;
  options.commonName = "aggregated";
  certificate = pki::selfSign(made, options);
  key = pki::toPkcs8(made);
}

AggregatedApi::~AggregatedApi() = default;

void AggregatedApi::stop() {
  server = nullptr;
}

std::string AggregatedApi::published() const {
  return cluster.ok({"get", "configmap", "-n", "kube-system", "extension-apiserver-authentication",
                     "-o", "jsonpath={.data.requestheader-client-ca-file}"});
}

void AggregatedApi::serve() {
  auto number = std::to_string(++generation);
  uint16_t port = kFirstPort + generation - 1;
  auto next = std::make_unique<Server>(
      cluster,
      TestHttpServer::Options{.certificate = certificate, .key = kj::StringPtr(key), .port = port},
      published());
  cluster.apply(objects(port));
  for (auto& node : cluster.nodes) {
    if (!node.controlPlane) continue;
    Result last;
    EXPECT_TRUE(eventually(
        [&] {
          last = call(node);
          return last.status == 0 && last.out == number;
        },
        kReached, 1))
        << node.name << ": " << last.out << last.err;
  }
  server = std::move(next);
}

Result AggregatedApi::call(const KubeNode& apiServer) const {
  return cluster.kubectl({"--server", "https://" + apiServer.address + ":6443", "get", "--raw",
                          std::string(kPath) + "/v1"},
                         15);
}

void AggregatedApi::expectAvailable(bool available) const {
  auto expected = available ? "True" : "False";
  auto status = [&] {
    return cluster.ok({"get", "apiservice", kService, "-o",
                       "jsonpath={.status.conditions[?(@.type==\"Available\")].status}"});
  };
  EXPECT_TRUE(eventually([&] { return status() == expected; }, kReached, 1))
      << "an aggregated API that is not " << expected;
}

Result etcdHealth(const KubeCluster& cluster, const KubeNode& node, const std::string& folder) {
  return harness::run(
      {"nsenter", "-t", std::to_string(cluster.talos.process(node.name)), "-n", "etcdctl",
       "--endpoints=https://127.0.0.1:2379", "--cacert=" + folder + "/ca.crt",
       "--cert=" + folder + "/peer.crt", "--key=" + folder + "/peer.key", "endpoint", "health"},
      60, {"ETCDCTL_API=3"});
}

void writeTokenKubeconfig(const KubeCluster& cluster, const std::string& path) {
  auto token = cluster.ok({"create", "token", "default", "--duration=3h"});
  while (!token.empty() && token.back() == '\n') token.pop_back();
  auto from = kube::readAccess(slurp(cluster.kubeconfigPath()).c_str(), "kubeconfig");
  auto server = kj::str("https://", from.name());
  auto text = kube::writeKubeconfig({.cluster = "c",
                                     .server = server,
                                     .authority = from.authority,
                                     .user = "u",
                                     .credentials = kube::BearerToken{token.c_str()},
                                     .context = "c",
                                     .nameSpace = "default"});
  std::ofstream(path) << kj::StringPtr(text).cStr();
}

RepeatedCalls::RepeatedCalls(const KubeCluster& cluster, const std::string& name, Call call)
    : name(name), call(std::move(call)) {
  for (auto& node : cluster.nodes) {
    if (node.controlPlane) servers.push_back(node);
  }
  thread = std::thread([this] { run(); });
}

RepeatedCalls::~RepeatedCalls() {
  stop();
}

void RepeatedCalls::stop() {
  over = true;
  if (thread.joinable()) thread.join();
}

void RepeatedCalls::checkStopped(unsigned calls) {
  stop();
  printf("%s: %u calls; %u were not answered by the first node, %u by none\n", name.c_str(),
         done.load(), refused, lost);
  fflush(stdout);
  EXPECT_GE(done, calls);
  EXPECT_EQ(lost, 0u) << lostError;
  EXPECT_EQ(wrong, "");
}

bool RepeatedCalls::anywhere(size_t first) {
  for (size_t i = 0; i < servers.size(); ++i) {
    auto& server = servers[(first + i) % servers.size()];
    auto result = call(server);
    if (result.status == 0) return true;
    for (auto part : {"x509", "certificate", "tls:", "Unauthorized", "must be logged in"}) {
      if (contains(result.err, part)) wrong += server.name + ": " + result.err;
    }
    lostError = server.name + ": " + result.err;
    refused += i == 0;
  }
  return false;
}

void RepeatedCalls::run() {
  for (size_t n = 0; !over; ++n) {
    if (!anywhere(n)) ++lost;
    ++done;
  }
}

}  // namespace talos
