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
constexpr const char *kBecomesPlane = "machine.type was worker, and is controlplane now",
                     *kOtherCa = "its CA was ";

// JSON Patches of the config that a node shows.
struct Lies {
  pki::CertificateAndKey foreign = pki::makeAuthority({.organization = "talos"});
  std::string own;  // the CA of the cluster, in base64

  static std::string crt(kj::StringPtr pem) {
    return kj::str("{\"crt\": \"", kj::encodeBase64(pem.asBytes()), "\"}").cStr();
  }
  std::string pair() const {
    auto key = kj::encodeBase64(kj::StringPtr(foreign.key).asBytes());
    auto certificate = crt(foreign.certificate);
    return certificate.substr(0, certificate.size() - 1) + ", \"key\": \"" + key.cStr() + "\"}";
  }
  static std::string put(const std::string& path, const std::string& value) {
    return R"({"op": "add", "path": ")" + path + R"(", "value": )" + value + "}";
  }
  std::string controlPlane() const {
    return "[" + put("/machine/type", "\"controlplane\"") + "," + put("/machine/ca", pair()) + "," +
           put("/cluster/ca", pair()) + "]";
  }
  std::string otherCa() const { return "[" + put("/machine/ca", crt(foreign.certificate)) + "]"; }
  std::string otherHash() const {
    auto hash = kj::str("\"", pki::authorityHash(foreign.certificate), "\"");
    return R"([{"op": "remove", "path": "/machine/ca"},)" + put("/machine/caHash", hash.cStr()) +
           "]";
  }
  // Those of a rotation from the foreign CA that has issued.
  std::string acceptedCas() const {
    auto pem = kj::decodeBase64(kj::arrayPtr(own.data(), own.size()));
    auto cross = pki::crossSign(foreign.certificate, foreign.key, kj::heapString(pem.asChars()));
    return "[" +
           put("/machine/acceptedCAs", "[" + crt(foreign.certificate) + "," + crt(cross) + "]") +
           "]";
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

std::string caOf(const std::string& talosconfig) {
  auto line = lineOf(harness::slurp(talosconfig), "ca");
  return line.substr(line.find("ca: ") + 4);
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
  // The configs that were sent to the liar until now.
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
    // On a busy host the node may be asked again in the next phase only.
    std::smatch phase;
    auto err = run.err();
    std::regex stopped("phase ([a-z]+) at 10.5.0.6: 10.5.0.6 has changed its answer: " + why);
    EXPECT_TRUE(std::regex_search(err, phase, stopped)) << err;
    printf("the lie after \"%s\" is seen in the phase %s\n", line.c_str(), phase[1].str().c_str());
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
  Lies lies{.own = caOf(cluster.talosconfig())};
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
  auto same = harness::run(lying.rotate({}), 120);
  EXPECT_EQ(same.out, plan.out) << "a worker's list decides: " << same.err;

  lying.expectStopped("> accept: 10.5.0.4 accepts", lies.controlPlane(), kBecomesPlane);
  lying.expectStopped("> accept: 10.5.0.6 accepts", lies.otherHash(), kOtherCa);
  lying.expectStopped("> issue: 10.5.0.4 has", lies.controlPlane(), kBecomesPlane);
  ASSERT_EQ(access(lying.output.c_str(), R_OK), 0);
  Caller newClient(lying.version(lying.output));
  auto dropped = lying.expectStopped("> issue: tried", lies.otherCa(), kOtherCa);
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
  EXPECT_TRUE(contains(received, caOf(lying.output))) << received;
}

}  // namespace talos
