// talosctl rotate-ca on three control-plane nodes and two workers in containers, one of which
// lies about its config in each phase: its apid is lying-apid.cc.
#include <unistd.h>

#include "tests/cluster/lying-node.h"
#include "tests/cluster/rotated-cluster.h"

namespace talos {
namespace {

constexpr const char* kLiar = "10.5.0.6";
constexpr const char *kBecomesPlane = "machine.type was worker, and is controlplane now",
                     *kOtherCa = "its CA was ";

std::string caOf(const std::string& talosconfig) {
  auto line = lineOf(harness::slurp(talosconfig), "ca");
  return line.substr(line.find("ca: ") + 4);
}

class LyingCluster : public RotatedCluster {
 public:
  LyingCluster() : RotatedCluster("liar") {}

  LyingNode liar{cluster, "liar-worker-2", kLiar, [this] {
                   bool issued = access(output.c_str(), R_OK) == 0;
                   return issued ? output : cluster.talosconfig();
                 }};

  // The node lies from this line of a run on.
  double expectStopped(const std::string& line, const std::string& patch,
                       const std::string& reason) const {
    return liar.expectStopped(rotate({"--dry-run=false"}), line, patch,
                              " has changed its answer: " + reason);
  }
  std::set<std::string> keys(const std::string& talosconfig) const {
    auto config =
        harness::run(with(talosconfig, {"-n", Cluster::kFirst, "get", "mc", "-o", "yaml"}));
    EXPECT_EQ(config.status, 0) << config.err;
    return keysIn(config.out);
  }
};

}  // namespace

// Catches: a key that a worker gets because of its claims, in any phase; a run that continues with
// the worker, ends without its name, or cannot be continued; a call of another client that fails
// because of the worker.
TEST(RotateCaLiar, EachLieStopsTheRunAndNoKeyLeaves) {
  LyingCluster lying;
  auto& cluster = lying.cluster;
  Lies lies("/machine");
  auto own = caOf(cluster.talosconfig());
  auto keys = lying.keys(cluster.talosconfig());
  EXPECT_GE(keys.size(), 5u) << "the config of a control-plane node has more";
  auto plan = harness::run(lying.rotate({}), 120);
  EXPECT_EQ(plan.status, 0) << plan.err;
  Caller oldClient(lying.version(lying.oldTalosconfig));

  lying.liar.tell(lies.controlPlane());
  auto claim = "10.5.0.6: its config has machine.type: controlplane, but ";
  lying.liar.expectRefused(lying.rotate({"--dry-run=false"}),
                           std::string(claim) + "it is named with --worker-nodes");
  lying.liar.expectRefused(
      lying.rotate({"--dry-run=false"}, "10.5.0.2,10.5.0.3,10.5.0.4,10.5.0.6", "10.5.0.5"),
      std::string(claim) + "it does not have the key");
  lying.liar.tell(lies.acceptedCas(own));
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
    lying.liar.tell(lies.acceptedCas(own));
    Background last(lying.rotate({"--dry-run=false"}));
    // It has looked.
    EXPECT_TRUE(last.waitFor([](auto&, auto& err) { return contains(err, "> present CA of"); },
                             kRotationTimeout))
        << last.err();
    lying.liar.tell("");
    EXPECT_EQ(last.finish(kRotationTimeout), 0) << last.err();
  }
  newClient.stop();
  EXPECT_EQ(newClient.failures(), "");
  EXPECT_GT(oldClient.calls(), 10u);
  EXPECT_GT(newClient.calls(), 3u);

  auto fresh = lying.keys(lying.output);
  EXPECT_NE(fresh, keys) << "the control plane has no new key";
  keys.merge(fresh);
  auto received = lying.liar.received();
  EXPECT_EQ(keysIn(received).size(), 0u);
  for (auto& key : keys) EXPECT_FALSE(contains(received, key)) << "a key has left";
  // The search would find one.
  EXPECT_TRUE(contains(received, caOf(lying.output))) << received;
}

}  // namespace talos
