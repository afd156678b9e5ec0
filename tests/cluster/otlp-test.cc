// machine.logging with OTLP of a running node in a container: a receiver in the cluster's network
// that is strict about the schema gets each line of the audit log once and in order, while it is
// away, and logd and machined are killed.
#include <gtest/gtest.h>
#include <signal.h>

#include "logd/test-otlp-collector.h"
#include "tests/harness/cluster.h"
#include "tests/harness/network-server.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::lines;

struct Received {
  std::vector<std::string> taken, problems;
  std::vector<std::string> requests;  // "encoding, Authorization" of each
};

Received receivedBy(logd::OtlpCollector& collector) {
  Received all{collector.taken, collector.problems, {}};
  for (size_t i = 0; i < collector.encodings.size(); ++i) {
    all.requests.push_back(collector.encodings[i] + ", " + collector.authorizations[i]);
  }
  return all;
}

// "audit: <line>", as the receiver has them.
std::vector<std::string> auditOf(const Cluster& cluster) {
  std::vector<std::string> all;
  for (auto& line : lines(cluster.ok({"-n", Cluster::kFirst, "logs", "audit"}))) {
    if (!line.empty()) all.push_back("audit: " + line.substr(line.find(": ") + 2));
  }
  return all;
}

// Expects the token neither in what a reader may read nor in text that is made to be sent to
// others.
void expectNoToken(const Cluster& cluster) {
  constexpr auto kToken = "a-token-of-the-test";
  for (auto& command : {std::vector<std::string>{"get", "logdestinations", "-o", "yaml"},
                        {"get", "logdestinationcredentials"},
                        {"get", "logdestinationstatuses", "-o", "yaml"},
                        {"logs", "logd"},
                        {"logs", "machined"},
                        {"logs", "audit"}}) {
    auto arguments = command;
    arguments.insert(arguments.begin(), {"-n", Cluster::kFirst});
    EXPECT_FALSE(contains(cluster.ok(arguments), kToken)) << command[1];
  }
  EXPECT_TRUE(contains(
      cluster.ok({"-n", Cluster::kFirst, "get", "logdestinationcredentials", "-o", "yaml"}),
      kToken));  // for os:admin, as the config itself
}

}  // namespace

// Catches: a request without its token; a token that a log, a reader or a report has;
// a daemon whose confinement does not let it; lines that a restart of the receiver, of
// logd or of machined loses or doubles; a request that the schema does not know.
TEST(Otlp, EveryLineReachesTheReceiverOnce) {
  Cluster cluster("otlp", {"--provisioner=container", "--no-uplink", "--workers", "0"});
  harness::NetworkServer<logd::OtlpCollector, Received> collector(cluster, {.port = 4318},
                                                                  receivedBy);
  cluster.ok(
      {"-n", Cluster::kFirst, "patch", "mc", "--immediate", "-p",
       R"([{"op": "add", "path": "/machine/logging", "value": {"destinations": [)"
       R"({"endpoint": "http://10.5.0.1:4318", "format": "otlp", "streams": ["audit"], )"
       R"("compression": "gzip", "headers": {"Authorization": "Bearer a-token-of-the-test"}}]}}])"});
  auto status = [&] {
    return cluster.ok({"-n", Cluster::kFirst, "get", "logdestinationstatuses", "-o", "yaml"});
  };
  unsigned calls = 0;
  auto call = [&] {
    for (unsigned i = 0; i < 10; ++i) {
      cluster.talosctl(
          {"-n", Cluster::kFirst, "service", "unknown" + std::to_string(calls++), "restart"});
    }
  };
  auto same = [&](const char* when) {
    EXPECT_TRUE(eventually([&] { return collector.seen().taken == auditOf(cluster); }, 60, 0.2))
        << when << status();
    EXPECT_EQ(auditOf(cluster), collector.seen().taken) << when;
    EXPECT_EQ(std::vector<std::string>(), collector.seen().problems) << when;
  };
  auto kill9 = [&](const char* service) {
    auto pid = cluster.program("otlp-master-1", service);
    ASSERT_GT(pid, 0) << service;
    kill(pid, SIGKILL);
  };
  call();
  same("at first");
  EXPECT_TRUE(eventually([&] { return contains(status(), "connected: true"); }, 20, 0.2));
  collector.away = true;
  ASSERT_TRUE(eventually([&] { return collector.isAway(); }, 20, 0.02));
  call();
  EXPECT_TRUE(eventually([&] { return contains(status(), "Connection refused"); }, 60, 0.2))
      << status();
  kill9("logd");
  call();
  kill9("machined");
  EXPECT_TRUE(eventually(
      [&] {
        return cluster.talosctl({"-n", Cluster::kFirst, "--timeout", "5s", "services"}, 20)
                   .status == 0;
      },
      60, 0.2));
  call();
  collector.away = false;
  same("after it was away");
  EXPECT_TRUE(contains(status(), "refusedLines: 0") || !contains(status(), "refusedLines"))
      << status();
  for (auto& how : std::vector(collector.seen().requests))
    EXPECT_EQ("gzip, Bearer a-token-of-the-test", how);
  expectNoToken(cluster);
}

}  // namespace talos
