// talosctl rotate-ca on three control-plane nodes and two workers in containers, one of which
// lies about its config in each phase: its apid is lying-apid.cc.
#include <kj/encoding.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "common/tls/pki.h"
#include "tests/cluster/rotated-cluster.h"

namespace talos {
namespace {

constexpr const char *kLiar = "10.5.0.6", *kLiarName = "liar-worker-2";
const std::string kChanged = "at 10.5.0.6: 10.5.0.6 has changed its answer: ";

// JSON Patches of the config that a node shows.
struct Lies {
  pki::CertificateAndKey foreign = pki::makeAuthority({.organization = "talos"});

  std::string pair(bool key) const {
    auto text = [](kj::StringPtr pem) { return kj::encodeBase64(pem.asBytes()); };
    return kj::str("{\"crt\": \"", text(foreign.certificate), "\", \"key\": \"",
                   key ? text(foreign.key) : kj::String(), "\"}")
        .cStr();
  }
  static std::string put(const std::string& path, const std::string& value) {
    return R"({"op": "add", "path": ")" + path + R"(", "value": )" + value + "}";
  }
  std::string controlPlane() const {
    return "[" + put("/machine/type", "\"controlplane\"") + "," + put("/machine/ca", pair(true)) +
           "," + put("/cluster/ca", pair(true)) + "]";
  }
  std::string otherCa() const { return "[" + put("/machine/ca", pair(false)) + "]"; }
  std::string otherHash() const {
    auto hash = kj::str("\"", pki::authorityHash(foreign.certificate), "\"");
    return R"([{"op": "remove", "path": "/machine/ca"},)" + put("/machine/caHash", hash.cStr()) +
           "]";
  }
  std::string acceptedCas() const {
    return "[" + put("/machine/acceptedCAs", "[" + pair(false) + "]") + "]";
  }
};

// The private keys and keys of Secrets in a config.
std::set<std::string> keysIn(const std::string& config) {
  std::set<std::string> keys;
  std::regex key("(key|[a-z]+EncryptionSecret): ([A-Za-z0-9+/=]{40,})");
  for (auto& line : harness::lines(config)) {
    std::smatch match;
    if (std::regex_search(line, match, key)) keys.insert(match[2]);
  }
  return keys;
}

class LyingCluster : public RotatedCluster {
 public:
  LyingCluster() : RotatedCluster("liar") {
    cluster.ok({"debug", "replace", "--state", cluster.folder() + "/clusters", "-n", kLiar, "apid",
                getenv("LYING_APID")},
               120);
  }

  // From now on; empty: the truth.
  void tell(const std::string& patch) const {
    auto path =
        "/proc/" + std::to_string(cluster.process(kLiarName)) + "/root/run/talos/networkd/lie";
    if (patch.empty()) {
      unlink(path.c_str());
      return;
    }
    std::ofstream(path + ".new") << patch;
    EXPECT_EQ(rename((path + ".new").c_str(), path.c_str()), 0) << path;
  }
  // What was sent to the liar until now.
  std::string received(const std::string& talosconfig) const {
    auto log = harness::run(with(talosconfig, {"-n", kLiar, "logs", "apid"}));
    EXPECT_EQ(log.status, 0) << log.err;
    EXPECT_TRUE(contains(log.out, "message=listening")) << "its beginning is lost";
    std::string received;
    for (auto& line : harness::lines(log.out)) {
      if (contains(line, "message=\"received a config\" ") || contains(line, "message=received ")) {
        received += line + "\n";
      }
    }
    return received;
  }
  // Nothing is changed by the run, which reads a lie in its first look.
  void expectRefused(const std::vector<std::string>& command, const std::string& why) const {
    auto result = harness::run(command, 120);
    EXPECT_EQ(result.status, 1) << result.out;
    EXPECT_TRUE(contains(result.err, why)) << result.err;
    EXPECT_EQ(received(cluster.talosconfig()), "");
  }
  // The node lies from this line of a run on, which ends with its name; returns a time shortly
  // before the line.
  double expectStopped(const std::string& line, const std::string& patch,
                       const std::string& why) const {
    SCOPED_TRACE(line);
    tell("");
    Background run(rotate({"--dry-run=false"}));
    EXPECT_TRUE(
        run.waitFor([&](auto&, auto& err) { return contains(err, line); }, kRotationTimeout))
        << run.err();
    auto at = nowS() - 0.5;
    tell(patch);
    EXPECT_EQ(run.finish(kRotationTimeout), 1) << run.err();
    EXPECT_TRUE(contains(run.err(), why)) << run.err();
    bool issued = access(output.c_str(), R_OK) == 0;
    EXPECT_EQ(keysIn(received(issued ? output : cluster.talosconfig())).size(), 0u);
    return at;
  }
  std::set<std::string> keys(const std::string& talosconfig) const {
    auto config =
        harness::run(with(talosconfig, {"-n", Cluster::kFirst, "get", "mc", "-o", "yaml"}));
    EXPECT_EQ(config.status, 0) << config.err;
    return keysIn(config.out);
  }
};

}  // namespace

// Catches: a key that a worker gets because of what it says, in any phase; a run that goes on with
// it, or ends without its name, or cannot be continued; a call of another client that fails by it.
TEST(RotateCaLiar, EachLieStopsTheRunAndNoKeyLeaves) {
  LyingCluster lying;
  auto& cluster = lying.cluster;
  Lies lies;
  auto keys = lying.keys(cluster.talosconfig());
  EXPECT_GE(keys.size(), 5u) << "the config of a control-plane node has more";
  auto plan = harness::run(lying.rotate({}), 120);
  EXPECT_EQ(plan.status, 0) << plan.err;
  Caller oldClient(lying.version(cluster.talosconfig()));

  lying.tell(lies.controlPlane());
  auto claim = "10.5.0.6: its config has machine.type: controlplane, but ";
  lying.expectRefused(lying.rotate({"--dry-run=false"}),
                      std::string(claim) + "it is named with --worker-nodes");
  lying.expectRefused(
      lying.rotate({"--dry-run=false"}, "10.5.0.2,10.5.0.3,10.5.0.4,10.5.0.6", "10.5.0.5"),
      std::string(claim) + "it does not have the key");
  lying.tell(lies.acceptedCas());
  EXPECT_EQ(harness::run(lying.rotate({}), 120).out, plan.out) << "a worker's list decides";

  lying.expectStopped("> accept: 10.5.0.4 accepts", lies.controlPlane(),
                      "the phase accept " + kChanged + "machine.type was worker, and is control");
  lying.expectStopped("> accept: 10.5.0.6 accepts", lies.otherHash(), kChanged + "its CA was ");
  lying.expectStopped("> issue: 10.5.0.4 has", lies.controlPlane(),
                      "the phase issue " + kChanged + "machine.type was worker, and is control");
  ASSERT_EQ(access(lying.output.c_str(), R_OK), 0);
  Caller newClient(lying.version(lying.output));
  auto dropped = lying.expectStopped("> issue: tried", lies.otherCa(),
                                     "the phase drop " + kChanged + "its CA was ");
  oldClient.stop();
  EXPECT_EQ(oldClient.failures(dropped), "");

  {
    lying.tell(lies.acceptedCas());
    Background last(lying.rotate({"--dry-run=false"}));
    // It has looked.
    EXPECT_TRUE(last.waitFor([](auto&, auto& err) { return contains(err, "> present CA of"); },
                             kRotationTimeout))
        << last.err();
    lying.tell("");
    EXPECT_EQ(last.finish(kRotationTimeout), 0) << last.err();
  }
  newClient.stop();
  EXPECT_EQ(newClient.failures(), "");
  EXPECT_GT(oldClient.calls(), 10u);
  EXPECT_GT(newClient.calls(), 3u);

  auto fresh = lying.keys(lying.output);
  EXPECT_NE(fresh, keys) << "the control plane has no new key";
  keys.merge(fresh);
  auto received = lying.received(lying.output);
  EXPECT_EQ(keysIn(received).size(), 0u);
  for (auto& key : keys) EXPECT_FALSE(contains(received, key)) << "a key has left";
  // The search would find one.
  auto ca = lineOf(harness::slurp(lying.output), "ca");
  EXPECT_TRUE(contains(received, ca.substr(ca.find("ca: ") + 4))) << received;
}

}  // namespace talos
