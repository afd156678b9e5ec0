// machine.logging of a running node in a container: a real rsyslogd in the cluster's network gets
// its lines, each once and in order, while the receiver, logd and machined are killed and the node
// is rebooted. rsyslogd is Debian's, with its TLS driver on OpenSSL.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "common/tls/pki.h"
#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::lines;
using harness::slurp;
namespace fs = std::filesystem;

class LogReceiver {
 public:
  LogReceiver(const Cluster& cluster, const std::string& folder)
      : cluster(cluster), folder(folder) {
    auto authority =
        pki::makeAuthority({.organization = "receivers", .keyType = pki::KeyType::kEcdsaP256});
    pki::LeafOptions options{.commonName = "receiver"};
    options.addresses = kj::arr(kj::str("10.5.0.1"));
    auto leaf = pki::issue(authority.certificate, authority.key, kj::mv(options));
    ca = authority.certificate.cStr();
    std::ofstream(folder + "/ca.pem") << ca;
    std::ofstream(folder + "/crt.pem") << leaf.certificate.cStr();
    std::ofstream(folder + "/key.pem") << kj::StringPtr(leaf.key).cStr();
    std::ofstream(folder + "/rsyslog.conf")
        << "global(workDirectory=\"" << folder << "\" maxMessageSize=\"16k\" "
        << "defaultNetstreamDriverCAFile=\"" << folder << "/ca.pem\" "
        << "defaultNetstreamDriverCertFile=\"" << folder << "/crt.pem\" "
        << "defaultNetstreamDriverKeyFile=\"" << folder << "/key.pem\")\n"
        << "module(load=\"imtcp\")\n"
        << "template(name=\"raw\" type=\"string\" string=\"%rawmsg%\\n\")\n"
        << "template(name=\"parsed\" type=\"string\" "
           "string=\"%app-name%|%hostname%|%structured-data%|%msg%\\n\")\n"
        << "ruleset(name=\"json\") { action(type=\"omfile\" file=\"" << folder
        << "/json\" template=\"raw\") }\n"
        << "ruleset(name=\"syslog\") { action(type=\"omfile\" file=\"" << folder
        << "/syslog\" template=\"parsed\") }\n"
        << "input(type=\"imtcp\" address=\"10.5.0.1\" port=\"5140\" ruleset=\"json\")\n"
        << "input(type=\"imtcp\" address=\"10.5.0.1\" port=\"6514\" ruleset=\"syslog\" "
           "streamDriver.name=\"ossl\" streamDriver.mode=\"1\" streamDriver.authMode=\"anon\")\n";
  }

  void start() {
    running = std::make_unique<harness::Background>(std::vector<std::string>{
        "nsenter", "--net=/proc/" + std::to_string(cluster.supervisor()) + "/ns/net",
        "/usr/sbin/rsyslogd", "-n", "-f", folder + "/rsyslog.conf", "-i", folder + "/pid"});
  }
  void stop() { running = nullptr; }

  std::string json() const { return slurp(folder + "/json"); }
  std::string syslog() const { return slurp(folder + "/syslog"); }
  // The texts of the audit log, in the order in which they came; those that came twice and are
  // marked count once.
  std::vector<std::string> audit() const {
    std::vector<std::string> all;
    for (auto& line : lines(json())) {
      if (!contains(line, "\"talos-service\":\"audit\"")) continue;
      auto text = line.substr(line.find("\"msg\":\"") + 7);
      text = text.substr(0, text.find("\",\"talos-level"));
      for (size_t at = 0; (at = text.find('\\', at)) != std::string::npos; ++at) text.erase(at, 1);
      bool repeated = contains(line, "\"talos-repeated\":true");
      if (repeated && std::find(all.begin(), all.end(), text) != all.end()) continue;
      all.push_back(text);
    }
    return all;
  }
  std::string ca;

 private:
  const Cluster& cluster;
  std::string folder;
  std::unique_ptr<harness::Background> running;
};

std::vector<std::string> auditOfNode(const Cluster& cluster) {
  std::vector<std::string> all;
  for (auto& line : lines(cluster.ok({"-n", Cluster::kFirst, "logs", "audit"}))) {
    if (!line.empty()) all.push_back(line.substr(line.find(": ") + 2));
  }
  return all;
}

bool nodeIsUp(const Cluster& cluster) {
  auto table = cluster.talosctl({"-n", Cluster::kFirst, "--timeout", "5s", "services"}, 20);
  return table.status == 0 && harness::allServicesUp(table.out);
}

// Catches: a daemon that cannot run in its confinement; lines that a restart of the receiver, of
// logd or of machined loses or doubles; a certificate that is not checked.
TEST(Logging, EveryLineReachesTheReceiverOnce) {
  char folder[] = "/tmp/talos-logging-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(folder));
  Cluster cluster("logging", {"--provisioner=container", "--no-uplink", "--workers", "0"});
  LogReceiver receiver(cluster, folder);
  receiver.start();
  auto ca = kj::encodeBase64(kj::StringPtr(receiver.ca.c_str()).asBytes());
  auto patch =
      std::string(R"([{"op": "add", "path": "/machine/logging", "value": {"destinations": [)") +
      R"({"endpoint": "tcp://10.5.0.1:5140", "streams": ["services", "events", "audit"],)" +
      R"( "extraTags": {"rack": "r17"}},)" +
      R"({"endpoint": "tls://10.5.0.1:6514", "format": "rfc5424", "ca": ")" + ca.cStr() +
      R"(", "extraTags": {"rack": "r17"}}]}}])";
  cluster.ok({"-n", Cluster::kFirst, "patch", "mc", "--immediate", "-p", patch});

  auto seen = [&](std::function<bool()> condition) { return eventually(condition, 60, 0.2); };
  EXPECT_TRUE(seen([&] { return contains(receiver.json(), "\"talos-service\":\"machined\""); }))
      << cluster.talosctl({"-n", Cluster::kFirst, "logs", "logd"}).out;
  EXPECT_TRUE(seen([&] { return contains(receiver.json(), "\"event\":{"); }));
  EXPECT_TRUE(contains(receiver.json(), "\"rack\":\"r17\"}")) << receiver.json();
  EXPECT_TRUE(seen([&] {
    return contains(receiver.syslog(), "machined|logging-master-1|[tags@32473 rack=\"r17\"]|");
  })) << receiver.syslog()
      << cluster.talosctl({"-n", Cluster::kFirst, "logs", "logd"}).out;
  EXPECT_TRUE(seen([&] {
    auto status =
        cluster.ok({"-n", Cluster::kFirst, "get", "logdestinationstatuses", "-o", "yaml"});
    return contains(status, "connected: true") && !contains(status, "connected: false");
  }));

  // Calls that change something are lines of the audit log.
  unsigned calls = 0;
  auto call = [&] {
    for (unsigned i = 0; i < 10; ++i) {
      cluster.talosctl(
          {"-n", Cluster::kFirst, "service", "unknown" + std::to_string(calls++), "restart"});
    }
  };
  auto same = [&](const char* when) {
    EXPECT_TRUE(seen([&] { return receiver.audit() == auditOfNode(cluster); })) << when;
    auto there = auditOfNode(cluster), here = receiver.audit();
    EXPECT_EQ(there, here) << when;
  };
  call();
  same("at first");
  receiver.stop();
  call();
  EXPECT_TRUE(seen([&] {
    return contains(
        cluster.ok({"-n", Cluster::kFirst, "get", "logdestinationstatuses", "-o", "yaml"}),
        "connected: false");
  }));
  receiver.start();
  same("after the receiver was away");
  auto kill9 = [&](const char* service) {
    auto pid = cluster.program("logging-master-1", service);
    ASSERT_GT(pid, 0) << service;
    kill(pid, SIGKILL);
  };
  kill9("logd");
  call();
  same("after logd was killed");
  kill9("machined");
  EXPECT_TRUE(seen([&] { return nodeIsUp(cluster); }));
  call();
  same("after machined was killed");
  auto found =
      cluster.ok({"-n", Cluster::kFirst, "logs", "audit", "--grep", "unknown7", "--tail", "1"});
  EXPECT_TRUE(contains(found, "unknown7")) << found;
  EXPECT_EQ(1u, lines(found).size()) << found;

  // Lines that wait for the receiver outlive a reboot.
  receiver.stop();
  call();
  auto before = auditOfNode(cluster);
  auto boot = cluster.ok({"-n", Cluster::kFirst, "read", "/proc/sys/kernel/random/boot_id"});
  cluster.ok({"-n", Cluster::kFirst, "reboot"});
  EXPECT_TRUE(eventually([&] { return nodeIsUp(cluster) && cluster.booted(); }, 120, 0.5));
  receiver.start();
  EXPECT_TRUE(seen([&] { return receiver.audit().size() > before.size(); }));
  auto got = receiver.audit();
  ASSERT_GE(got.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), got.begin()));

  // A receiver with another authority's certificate gets nothing.
  auto other = pki::makeAuthority({.organization = "others"});
  auto wrong = kj::encodeBase64(other.certificate.asBytes());
  cluster.ok({"-n", Cluster::kFirst, "patch", "mc", "--immediate", "-p",
              std::string(R"([{"op": "replace", "path": "/machine/logging/destinations/1/ca", )") +
                  R"("value": ")" + wrong.cStr() + R"("}])"});
  EXPECT_TRUE(seen([&] {
    auto status = cluster
                      .talosctl({"-n", Cluster::kFirst, "get", "logdestinationstatuses",
                                 "tls://10.5.0.1:6514", "-o", "yaml"})
                      .out;
    return contains(status, "connected: false") && contains(status, "certificate");
  })) << cluster.ok({"-n", Cluster::kFirst, "get", "logdestinationstatuses", "-o", "yaml"});
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

}  // namespace
}  // namespace talos
