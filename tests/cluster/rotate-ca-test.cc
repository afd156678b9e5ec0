// talosctl rotate-ca on three control-plane nodes and two workers in containers: under clients of
// both CAs, cut off in each phase, with a node that restarts in each phase.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <regex>
#include <thread>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Background;
using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::Result;
using harness::slurp;

constexpr double kRotationTimeout = 400;                     // s; beside other tests
const char* const kAllNodes = "10.5.0.2,10.5.0.3,10.5.0.5";  // those that the test does not restart

double nowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Calls all the time with one client configuration, over a new connection each time.
class Caller {
 public:
  explicit Caller(std::vector<std::string> command)
      : command(std::move(command)), thread([this] { loop(); }) {}
  ~Caller() { stop(); }
  Caller(const Caller&) = delete;

  void stop() {
    ended = true;
    if (thread.joinable()) thread.join();
  }
  unsigned calls() const { return count; }
  // Of calls that had ended by then.
  std::string failures(double until = 1e300) {
    std::lock_guard lock(mutex);
    std::string all;
    for (auto& [at, text] : failed) {
      if (at < until) all += text + "\n";
    }
    return all;
  }

 private:
  std::vector<std::string> command;
  std::atomic<bool> ended = false;
  std::atomic<unsigned> count = 0;
  std::mutex mutex;
  std::vector<std::pair<double, std::string>> failed;
  std::thread thread;

  void loop() {
    while (!ended) {
      auto result = harness::run(command, 60);
      ++count;
      if (result.status == 0 && result.err.empty()) continue;
      std::lock_guard lock(mutex);
      failed.push_back({nowS(), result.out + result.err});
    }
  }
};

// The line of a client configuration with this key.
std::string lineOf(const std::string& config, const std::string& key) {
  std::smatch match;
  std::regex line("\n *" + key + ": [^\n]*");
  EXPECT_TRUE(std::regex_search(config, match, line)) << key;
  return match[0];
}

// Trusts the CA of one client configuration, with the certificate of another.
void writeMixed(const std::string& path, const std::string& trusting, const std::string& own) {
  auto text = slurp(trusting), theirs = slurp(own);
  for (auto key : {"crt", "key"}) {
    auto old = lineOf(text, key);
    text.replace(text.find(old), old.size(), lineOf(theirs, key));
  }
  std::ofstream(path) << text;
}

class RotatedCluster {
 public:
  RotatedCluster()
      : cluster("rotate", {"--provisioner", "container", "--masters", "3", "--workers", "2"}),
        output(cluster.folder() + "/new-talosconfig") {}

  std::vector<std::string> rotate(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"rotate-ca",
                                          "--kubernetes=false",
                                          "--control-plane-nodes=10.5.0.2,10.5.0.3,10.5.0.4",
                                          "--worker-nodes=10.5.0.5,10.5.0.6",
                                          "--output",
                                          output};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cluster.command(arguments);
  }
  // Until the line is on stderr, and then SIGKILL. A node is restarted behind the line `first`: a
  // run begins with all nodes up.
  void rotateUntil(const std::string& line, const std::string& first = "",
                   const std::string& restarted = "") const {
    Background run(rotate({"--dry-run=false"}));
    auto awaitLine = [&](const std::string& text) {
      EXPECT_TRUE(
          run.waitFor([&](auto&, auto& err) { return contains(err, text); }, kRotationTimeout))
          << text << ": " << run.err();
    };
    awaitLine(first);
    if (!restarted.empty()) restart(restarted);
    awaitLine(line);
  }
  std::vector<std::string> with(const std::string& talosconfig,
                                std::vector<std::string> arguments) const {
    std::vector<std::string> command = {harness::talosctlPath(), "--talosconfig", talosconfig};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  std::vector<std::string> version(const std::string& talosconfig) const {
    // Two endpoints, neither of which is restarted.
    return with(talosconfig,
                {"-e", cluster.endpoint("10.5.0.2") + "," + cluster.endpoint("10.5.0.3"), "-n",
                 kAllNodes, "--timeout", "30s", "version"});
  }
  // A node itself, called from the network of the nodes: workers' certificates are for that.
  Result onSegment(const std::string& talosconfig, const std::string& node) const {
    std::vector<std::string> command = {"nsenter", "-t", std::to_string(cluster.supervisor()),
                                        "-n"};
    auto call = with(talosconfig, {"-e", node, "-n", node, "--timeout", "20s", "version"});
    command.insert(command.end(), call.begin(), call.end());
    return harness::run(command, 60);
  }
  void restart(const std::string& node) const {
    cluster.ok({"cluster", "node", "kill", node}, 120);
    cluster.ok({"cluster", "node", "start", node}, 120);
  }

  Cluster cluster;
  std::string output;
};

}  // namespace

// Catches: a client of either CA that is refused before the old one is dropped; a run that does not
// find where an earlier one was killed; a node that misses a phase because it restarts; an old CA
// that opens anything afterwards; a worker that trustd no longer serves.
TEST(RotateCa, IsFinishedWhateverHappensAndNoCallFails) {
  RotatedCluster rotated;
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

  Caller oldClient(rotated.version(cluster.talosconfig()));
  Background stream(cluster.command({"-n", "10.5.0.5", "logs", "-f", "machined"}));
  rotated.rotateUntil("> accept: 10.5.0.3 accepts");
  rotated.rotateUntil("> issue: 10.5.0.2 has", "> accept: 10.5.0.4 acc", "rotate-worker-2");
  rotated.rotateUntil("> issue: 10.5.0.5 has", "> issue: 10.5.0.2 has", "rotate-master-3");
  ASSERT_EQ(access(output.c_str(), R_OK), 0);
  Caller newClient(rotated.version(output));

  double dropped = 0;
  {
    Background run(rotated.rotate({"--dry-run=false"}));
    EXPECT_TRUE(run.waitFor([](auto&, auto& err) { return contains(err, "> issue: tried"); },
                            kRotationTimeout))
        << run.err();
    // The next step is the drop; calls that ended shortly before this were served by then.
    dropped = nowS() - 0.5;
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
  EXPECT_EQ(stream.finish(0.1), -1) << "a call under way has ended: " << stream.err();
  printf(
      "rotation: %.0f s with three kills and three restarts; %u calls of the old CA, %u of the "
      "new one\n",
      nowS() - begin, oldClient.calls(), newClient.calls());
  EXPECT_GT(oldClient.calls(), 10u);
  EXPECT_GT(newClient.calls(), 3u);

  // The nodes are not what the old CA's clients trust, and do not accept their certificates.
  auto mixed = cluster.folder() + "/mixed-talosconfig";
  writeMixed(mixed, output, cluster.talosconfig());
  for (auto node : {"10.5.0.2", "10.5.0.3", "10.5.0.4", "10.5.0.5", "10.5.0.6"}) {
    auto distrusted = rotated.onSegment(cluster.talosconfig(), node);
    EXPECT_NE(distrusted.status, 0) << node << " is of the old CA: " << distrusted.out;
    auto refused = rotated.onSegment(mixed, node);
    EXPECT_NE(refused.status, 0) << node << " accepts the old CA: " << refused.out;
    EXPECT_TRUE(contains(refused.err, "unknown")) << node << ": " << refused.err;
    auto served = rotated.onSegment(output, node);
    EXPECT_EQ(served.status, 0) << node << ": " << served.err;
  }
  // A certificate of the new CA for another name, which the worker has to ask trustd for.
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
      60, 0.5))
      << issued;
  auto again = harness::run(rotated.with(output, {"-n", "10.5.0.6", "version"}));
  EXPECT_EQ(again.status, 0) << again.err;
}

}  // namespace talos
