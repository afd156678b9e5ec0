// Workers and their certificates: three control-plane machines and two workers without any
// Kubernetes, when trustd is away, or clocks or tokens are wrong. Machines are containers, except
// where the test needs a clock for each.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include <regex>
#include <set>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::slurp;

constexpr double kTimeout = 300;  // s; beside other tests

const std::vector<std::string> kControlPlane = {"10.5.0.2", "10.5.0.3", "10.5.0.4"};
const std::vector<std::string> kWorkers = {"10.5.0.5", "10.5.0.6"};

std::string joined(const std::vector<std::string>& arguments) {
  std::string all;
  for (auto& argument : arguments) all += (all.empty() ? "" : ",") + argument;
  return all;
}

std::string firstMatch(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : std::string();
}

// The number of times that a text has this.
size_t timesIn(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++count;
  return count;
}

// The status of a worker's certificate, requested through this control-plane machine.
struct Status {
  bool ready = false;
  std::string endpoint, notAfter, message;
};
Status statusOf(const Cluster& cluster, const std::string& worker, const std::string& through) {
  auto yaml = cluster.talosctl({"-e", cluster.endpoint(through), "-n", worker, "--timeout", "20s",
                                "get", "joinstatuses", "-o", "yaml"});
  Status status;
  status.ready = contains(yaml.out, "ready: true");
  status.endpoint = firstMatch(yaml.out, "endpoint: \"?([^\"\\s]+)");
  status.notAfter = firstMatch(yaml.out, "notAfter: \"?([^\"\\s]+)");
  status.message = yaml.out + yaml.err;
  return status;
}

std::string serviceApid(const Cluster& cluster, const std::string& worker,
                        const std::string& through) {
  auto shown = cluster.talosctl(
      {"-e", cluster.endpoint(through), "-n", worker, "--timeout", "20s", "service", "apid"});
  return shown.out + shown.err;
}

// Everything in the configs that must never be in a log: tokens, and the middle of each key, as
// base64 once more and as PEM.
std::vector<std::string> secretsOf(const Cluster& cluster, const std::string& node) {
  auto yaml = slurp(cluster.stateFolder() + "/" + node + ".yaml");
  std::vector<std::string> secrets;
  std::regex line("(?:token|key): \"?([A-Za-z0-9+/=.]+)");
  for (std::sregex_iterator it(yaml.begin(), yaml.end(), line), end; it != end; ++it) {
    auto value = (*it)[1].str();
    if (value.size() < 100) {
      secrets.push_back(value);
      continue;
    }
    secrets.push_back(value.substr(value.size() / 2, 24));
    auto pem = kj::decodeBase64(kj::StringPtr(value.c_str()).asArray());
    std::string text(reinterpret_cast<const char*>(pem.begin()), pem.size());
    secrets.push_back(text.substr(text.size() / 2, 16));
  }
  return secrets;
}

void expectNoSecretInAnyLog(const Cluster& cluster, const std::vector<std::string>& nodes,
                            const std::vector<std::string>& names) {
  std::string all;
  for (auto& node : nodes) {
    for (auto id :
         {"machined", "apid", "trustd", "networkd", "timed", "controller-runtime", "audit"}) {
      all += cluster.talosctl({"-n", node, "logs", id}, 120).out;
    }
    all += cluster.talosctl({"-n", node, "dmesg"}, 120).out;
  }
  ASSERT_TRUE(contains(all, "level=info")) << "the check below would see nothing";
  for (auto& name : names) all += cluster.console(name);
  for (auto& name : {names.front(), names.back()}) {
    auto secrets = secretsOf(cluster, name);
    ASSERT_GE(secrets.size(), 2u);
    for (auto& secret : secrets) EXPECT_FALSE(contains(all, secret)) << "a secret is in a log";
  }
  EXPECT_FALSE(contains(all, "PRIVATE KEY"));
}

}  // namespace

// Catches: a worker that can be called at only one of its addresses; a certificate with addresses
// that were not proved; an error that does not say how to call the worker.
TEST(Trust, AWorkerIsCalledAtEachOfItsAddresses) {
  Cluster cluster("twice",
                  {"--provisioner", "container", "--masters", "1", "--workers", "1", "--ipv6"});
  const std::string master = "10.5.0.2", four = "10.5.0.3", six = "fd74:616c:a05::3";
  for (auto& address : {four, six}) {
    harness::Result shown;
    EXPECT_TRUE(eventually(
        [&] {
          shown = cluster.talosctl({"-n", address, "--timeout", "20s", "read", "/etc/hostname"});
          return shown.status == 0;
        },
        kTimeout, 1))
        << address << ": " << shown.out << shown.err;
  }
  auto issued = cluster.ok({"-n", master, "get", "issuedcertificates", "-o", "yaml"});
  EXPECT_TRUE(contains(issued, four)) << issued;
  EXPECT_TRUE(contains(issued, six)) << issued;
  auto status = statusOf(cluster, four, master);
  EXPECT_TRUE(status.ready) << status.message;
  EXPECT_TRUE(contains(status.message, "certificate will be renewed at")) << status.message;

  // An address of the node from which no trustd can be reached, so that it cannot be proved.
  auto patch = R"([{"op": "replace", "path": "/machine/network/interfaces/0", "value":
                    {"interface": "eth0", "addresses": ["192.0.2.9/32"]}}])";
  auto patched =
      cluster.talosctl({"-n", four, "patch", "machineconfig", "--mode=no-reboot", "-p", patch});
  EXPECT_EQ(patched.status, 0) << patched.out << patched.err;
  EXPECT_TRUE(eventually(
      [&] { return contains(cluster.ok({"-n", four, "get", "addresses"}), "eth0/192.0.2.9"); },
      kTimeout, 1));
  // The node requests the address after half a minute, and trustd leaves it out.
  auto newest = [&] {
    auto records = cluster.ok({"-n", master, "get", "issuedcertificates", "-o", "yaml"});
    return std::pair(timesIn(records, "fingerprint:"), records);
  };
  auto before = newest().first;
  EXPECT_TRUE(eventually([&] { return newest().first > before; }, kTimeout, 1));
  EXPECT_FALSE(contains(newest().second, "192.0.2.9")) << newest().second;
  for (auto& address : {four, six}) {
    EXPECT_EQ(cluster.talosctl({"-n", address, "read", "/etc/hostname"}).status, 0) << address;
  }
}

// One cluster for the whole test: each part continues with the state of the part before.
TEST(Trust, WorkersGetKeepAndLoseTheirCertificates) {
  Cluster cluster(
      "trust", {"--provisioner", "container", "--masters", "3", "--workers", "2", "--config-patch",
                R"([{"op": "add", "path": "/cluster/trustd", "value":
                                {"certLifetime": "60s",
                                 "endpoints": ["10.5.0.2", "second.test", "10.5.0.4"]}},
                               {"op": "add", "path": "/machine/network/extraHostEntries", "value":
                                [{"ip": "10.5.0.3", "aliases": ["second.test"]}]}])"});
  // Through any control-plane machine, without Kubernetes.
  for (auto& through : kControlPlane) {
    auto version =
        cluster.talosctl({"-e", cluster.endpoint(through), "-n", joined(kWorkers), "version"}, 120);
    EXPECT_EQ(version.status, 0) << through << ": " << version.err;
    for (auto& worker : kWorkers) EXPECT_TRUE(contains(version.out, worker)) << version.out;
    EXPECT_FALSE(contains(version.out, "not authenticated"));
  }
  auto services = cluster.ok({"-n", kWorkers[0], "services"});
  EXPECT_FALSE(std::regex_search(services, std::regex("kubelet +Running"))) << services;
  EXPECT_TRUE(contains(cluster.talosctl({"-n", kWorkers[0], "etcd", "members"}).err,
                       "this node is a worker and has no etcd"));
  auto pids = cluster.servicePids(kWorkers[0]);
  ASSERT_EQ(pids.count("apid"), 1u);

  // Renewals under a stream of calls.
  {
    auto first = statusOf(cluster, kWorkers[0], kControlPlane[0]);
    ASSERT_TRUE(first.ready) << first.message;
    std::set<std::string> observed;
    unsigned calls = 0, failed = 0;
    EXPECT_TRUE(eventually(
        [&] {
          for (int i = 0; i < 10; ++i) {
            auto& through = kControlPlane[calls % kControlPlane.size()];
            auto call = cluster.talosctl({"-e", cluster.endpoint(through), "-n", joined(kWorkers),
                                          "--timeout", "30s", "version"});
            ++calls;
            bool good = call.status == 0 && call.err.empty();
            failed += !good;
            EXPECT_TRUE(good) << call.out << call.err;
          }
          auto now = statusOf(cluster, kWorkers[0], kControlPlane[0]).notAfter;
          if (!now.empty()) observed.insert(now);
          return observed.size() >= 3;
        },
        kTimeout))
        << observed.size() << " certificates";
    printf("renewals: %zu certificates of one worker under %u calls to two, %u failed\n",
           observed.size(), calls, failed);
    EXPECT_EQ(failed, 0u);
  }

  // The machine that gave the certificate goes: the next one gives the next.
  auto used = statusOf(cluster, kWorkers[0], "10.5.0.4").endpoint;
  ASSERT_FALSE(used.empty());
  std::string gone = used == "10.5.0.4" ? "10.5.0.4" : used;
  std::string other = gone == "10.5.0.3" ? "10.5.0.4" : "10.5.0.3";
  cluster.ok({"-e", cluster.endpoint(gone), "-n", gone, "shutdown"}, 180);
  EXPECT_TRUE(eventually(
      [&] {
        auto now = statusOf(cluster, kWorkers[0], other);
        return now.ready && now.endpoint != gone && now.endpoint != "";
      },
      kTimeout));

  // No trustd at all: services keep running, the error is reported, and later it is renewed.
  std::vector<std::string> left;
  for (auto& node : kControlPlane) {
    if (node != gone) left.push_back(node);
  }
  for (auto& node : left) {
    cluster.ok({"-e", cluster.endpoint(node), "-n", node, "service", "trustd", "stop"}, 120);
  }
  EXPECT_TRUE(eventually(
      [&] {
        auto shown = serviceApid(cluster, kWorkers[0], other);
        return contains(shown, "retry in") && contains(shown, "second.test: ") == false &&
               contains(shown, "no answer within");
      },
      kTimeout))
      << serviceApid(cluster, kWorkers[0], other);
  // The certificate expires, and the worker keeps running: the call uses an earlier connection.
  std::string ended;
  EXPECT_TRUE(eventually(
      [&] {
        ended = serviceApid(cluster, kWorkers[0], other);
        return contains(ended, "the certificate is valid from") &&
               contains(ended, "but the clock shows");
      },
      kTimeout))
      << ended;
  for (auto& node : left) {
    cluster.ok({"-e", cluster.endpoint(node), "-n", node, "service", "trustd", "start"}, 120);
  }
  for (auto& worker : kWorkers) {
    EXPECT_TRUE(eventually([&] { return statusOf(cluster, worker, other).ready; }, kTimeout));
  }
  EXPECT_EQ(cluster.servicePids(kWorkers[0]), pids) << "nothing was started again";
  std::vector<std::string> asked = left;
  asked.insert(asked.end(), kWorkers.begin(), kWorkers.end());
  expectNoSecretInAnyLog(
      cluster, asked,
      {"trust-master-1", "trust-master-2", "trust-master-3", "trust-worker-1", "trust-worker-2"});
}

// Catches: a worker that has to be looked at with a screwdriver.
TEST(Trust, AWrongTokenIsReportedThroughTheControlPlane) {
  Cluster cluster("token", {"--masters", "1", "--workers", "1", "--provisioner", "container",
                            "--wait=false", "--config-patch-join",
                            R"([{"op": "replace", "path": "/machine/token",
                                 "value": "wwwwww.0123456789abcdef"}])"});
  std::string shown;
  EXPECT_TRUE(eventually(
      [&] {
        shown = serviceApid(cluster, "10.5.0.3", "10.5.0.2");
        return contains(shown, "wrong token");
      },
      kTimeout))
      << shown;
  EXPECT_TRUE(contains(shown, "10.5.0.2: ")) << "the endpoint is named: " << shown;
  EXPECT_TRUE(contains(shown, "not authenticated")) << shown;
  auto refused = cluster.talosctl({"-n", "10.5.0.3", "--timeout", "20s", "reboot"});
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(contains(refused.err, "the identity of ")) << refused.err;
  EXPECT_FALSE(contains(cluster.console("token-worker-1"), "wwwwww.0123456789abcdef"));
  EXPECT_FALSE(contains(cluster.ok({"-n", "10.5.0.2", "logs", "trustd"}), "wwwwww.0123"));
}

// Catches: a control plane whose new token cuts off the workers that have joined at their next
// renewal, minutes or hours later, or when they restart.
TEST(Trust, ANewTokenCutsOffNoWorker) {
  Cluster cluster("renewing", {"--provisioner", "container", "--masters", "1", "--workers", "1",
                               "--config-patch", R"([{"op": "add", "path": "/cluster/trustd",
                                          "value": {"certLifetime": "60s"}}])"});
  const std::string master = "10.5.0.2", worker = "10.5.0.3";
  const std::string old = firstMatch(slurp(cluster.stateFolder() + "/renewing-worker-1.yaml"),
                                     "token: \"?([a-z0-9]{6}\\.[a-z0-9]{16})");
  ASSERT_FALSE(old.empty());
  // Names are signed when etcd has started, which is refused before.
  Status named;
  ASSERT_TRUE(eventually(
      [&] {
        named = statusOf(cluster, worker, master);
        return named.ready && !contains(named.message, "only: ");
      },
      kTimeout))
      << named.message;
  const auto early = timesIn(cluster.ok({"-n", master, "logs", "trustd"}), "refused");
  cluster.ok({"-n", master, "patch", "mc", "--immediate", "-p",
              R"([{"op": "replace", "path": "/machine/token",
                   "value": "nnnnnn.0123456789abcdef"}])"});
  std::set<std::string> observed;
  EXPECT_TRUE(eventually(
      [&] {
        auto now = statusOf(cluster, worker, master);
        EXPECT_TRUE(now.ready) << now.message;
        if (!now.notAfter.empty()) observed.insert(now.notAfter);
        return observed.size() >= 3;
      },
      kTimeout))
      << observed.size() << " certificates";
  auto log = cluster.ok({"-n", master, "logs", "trustd"});
  EXPECT_TRUE(contains(log, "certificate renewed, for who had it")) << log;
  EXPECT_EQ(timesIn(log, "refused"), early) << log;
  EXPECT_FALSE(contains(log, old));
  // After a reboot as well: the node's only token is no longer the control plane's.
  cluster.ok({"-e", cluster.endpoint(master), "-n", worker, "reboot"}, 300);
  Status after;
  EXPECT_TRUE(eventually(
      [&] {
        after = statusOf(cluster, worker, master);
        return after.ready && !after.notAfter.empty() && observed.count(after.notAfter) == 0;
      },
      kTimeout))
      << after.message;
}

// Catches: a machine that needs the right time to get the certificate with which it can be reached.
TEST(Trust, AMachineTenYearsOffJoins) {
  Cluster cluster("clock",
                  {"--masters", "1", "--workers", "1", "--memory", "384", "--wait-timeout", "8m",
                   "--clock", "2016-01-01T00:00:00"},
                  600);
  auto version = cluster.talosctl({"-n", "10.5.0.3", "version"}, 120);
  EXPECT_EQ(version.status, 0) << version.err;
  EXPECT_FALSE(contains(version.out, "not authenticated"));
  EXPECT_TRUE(contains(version.out, "10.5.0.3"));
  EXPECT_TRUE(statusOf(cluster, "10.5.0.3", "10.5.0.2").ready);
}

}  // namespace talos
