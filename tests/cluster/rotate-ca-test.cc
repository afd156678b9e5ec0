// talosctl rotate-ca on three control-plane nodes and two workers in containers: under clients of
// both CAs, cut off in each phase, with a node that restarts in each phase.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/cluster/rotated-cluster.h"

namespace talos {
namespace {

using harness::eventually;
using harness::slurp;

// Trusts the CA of one client configuration, with the certificate of another.
void writeMixed(const std::string& path, const std::string& trusting, const std::string& own) {
  auto text = slurp(trusting), theirs = slurp(own);
  for (auto key : {"crt", "key"}) {
    auto old = lineOf(text, key);
    text.replace(text.find(old), old.size(), lineOf(theirs, key));
  }
  std::ofstream(path) << text;
}

}  // namespace

// Catches: a client of either CA that is refused before the old one is dropped; a run that does not
// find where an earlier one was killed; a node that misses a phase because it restarts; an old CA
// that opens anything afterwards; a worker that trustd no longer serves; a config of a node in the
// state folder that has the old CA.
TEST(RotateCa, IsFinishedWhateverHappensAndNoCallFails) {
  // The file that names the folders of clusters is that of this test.
  char home[] = "/tmp/rotate-home-XXXXXX";
  ASSERT_NE(mkdtemp(home), nullptr);
  setenv("HOME", home, 1);
  RotatedCluster rotated("rotate");
  auto& cluster = rotated.cluster;
  auto& output = rotated.output;
  auto begin = nowS();

  auto plan = harness::run(rotated.rotate({}), 120);
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_TRUE(contains(plan.out, "> drop: 10.5.0.6 (worker) accepts the new CA only")) << plan.out;
  EXPECT_TRUE(contains(plan.out, "nothing was changed")) << plan.out;
  EXPECT_NE(access(output.c_str(), F_OK), 0);
  auto silent =
      harness::run(rotated.rotate({"--dry-run=false", "--worker-nodes=10.5.0.5,10.5.0.99"}), 120);
  EXPECT_NE(silent.status, 0);
  EXPECT_TRUE(contains(silent.err, "nothing is changed in this run")) << silent.err;
  EXPECT_FALSE(contains(cluster.ok({"-n", "10.5.0.2", "get", "mc", "-o", "yaml"}), "acceptedCAs"));

  Caller oldClient(rotated.version(rotated.oldTalosconfig));
  Background stream(cluster.command({"-n", "10.5.0.5", "logs", "-f", "machined"}));
  rotated.rotateUntil("> accept: 10.5.0.3 accepts");
  rotated.rotateUntil("> issue: 10.5.0.2 has", "> accept: 10.5.0.4 acc", "rotate-worker-2");
  rotated.rotateUntil("> issue: 10.5.0.5 has", "> issue: 10.5.0.2 has", "rotate-master-3");
  ASSERT_EQ(access(output.c_str(), R_OK), 0);
  Caller newClient(rotated.version(output));

  // The old CA is dropped in the next run; calls that ended before were served.
  auto dropped = nowS();
  {
    Background run(rotated.rotate({"--dry-run=false"}), harness::Pace::kLineByLine);
    EXPECT_TRUE(run.waitFor([](auto&, auto& err) { return contains(err, "> issue: tried"); },
                            kRotationTimeout))
        << run.err();
    rotated.restart("rotate-worker-2");
    EXPECT_TRUE(run.waitFor([](auto&, auto& err) { return contains(err, "> drop: 10.5.0.2 acc"); },
                            kRotationTimeout))
        << run.err();
  }
  oldClient.stop();
  EXPECT_EQ(oldClient.failures(dropped), "");
  // A run begins with all nodes up.
  EXPECT_TRUE(eventually([&] { return rotated.onSegment(output, "10.5.0.6").status == 0; },
                         kRotationTimeout))
      << rotated.onSegment(output, "10.5.0.6").err;
  auto last = harness::run(rotated.rotate({"--dry-run=false"}), kRotationTimeout);
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_TRUE(contains(last.err, "> drop: tried: every endpoint serves clients of the new CA only"))
      << last.err;
  newClient.stop();
  EXPECT_EQ(newClient.failures(), "");
  auto ca = lineOf(slurp(output), "ca");
  ca = ca.substr(ca.find(": ") + 2);
  for (auto name : {"master-1", "master-2", "master-3", "worker-1", "worker-2"}) {
    auto stored = slurp(cluster.stateFolder() + "/rotate-" + name + ".yaml");
    EXPECT_TRUE(contains(stored, ca)) << name << ":\n" << last.err << lineOf(stored, "crt");
  }
  EXPECT_EQ(stream.finish(0.1), -1) << "a call under way has ended: " << stream.err();
  printf(
      "rotation: %.0f s with three kills and three restarts; %u calls of the old CA, %u of the "
      "new one\n",
      nowS() - begin, oldClient.calls(), newClient.calls());
  EXPECT_GT(oldClient.calls(), 10u);
  EXPECT_GT(newClient.calls(), 3u);

  // The old CA's clients do not trust the nodes, and the nodes do not accept their certificates.
  auto mixed = cluster.folder() + "/mixed-talosconfig";
  writeMixed(mixed, output, rotated.oldTalosconfig);
  for (auto node : {"10.5.0.2", "10.5.0.3", "10.5.0.4", "10.5.0.5", "10.5.0.6"}) {
    auto distrusted = rotated.onSegment(rotated.oldTalosconfig, node);
    EXPECT_NE(distrusted.status, 0) << node << " is of the old CA: " << distrusted.out;
    auto refused = rotated.onSegment(mixed, node);
    EXPECT_NE(refused.status, 0) << node << " accepts the old CA: " << refused.out;
    EXPECT_TRUE(contains(refused.err, "unknown")) << node << ": " << refused.err;
    for (auto& fresh : {output, cluster.talosconfig()}) {
      auto served = rotated.onSegment(fresh, node);
      EXPECT_EQ(served.status, 0) << node << ": " << served.err;
    }
  }
  // A certificate of the new CA for another name, which the worker has to ask trustd for. Names are
  // signed when etcd has started.
  auto bootstrap = harness::run(rotated.with(output, {"-n", Cluster::kFirst, "bootstrap"}), 120);
  EXPECT_EQ(bootstrap.status, 0) << bootstrap.err;
  Result patched;
  EXPECT_TRUE(eventually(
      [&] {
        patched = harness::run(rotated.with(
            output,
            {"-n", "10.5.0.6", "patch", "mc", "--mode=no-reboot", "-p",
             R"([{"op": "add", "path": "/machine/network/hostname", "value": "renewed"}])"}));
        return patched.status == 0 || !contains(patched.err, "the sequence boot is running");
      },
      kRotationTimeout, 0.5));
  EXPECT_EQ(patched.status, 0) << patched.err;
  std::string issued;
  EXPECT_TRUE(eventually(
      [&] {
        issued = harness::run(rotated.with(output, {"-n", "10.5.0.2,10.5.0.3,10.5.0.4", "get",
                                                    "issuedcertificates", "-o", "yaml"}))
                     .out;
        return contains(issued, "- renewed\n");
      },
      kRotationTimeout, 0.5))
      << issued;
  auto again = harness::run(rotated.with(output, {"-n", "10.5.0.6", "version"}));
  EXPECT_EQ(again.status, 0) << again.err;
}

}  // namespace talos
