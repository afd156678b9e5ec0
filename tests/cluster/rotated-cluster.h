// Three control-plane nodes and two workers in containers, whose CA is replaced under clients.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <regex>
#include <thread>

#include "tests/harness/cluster.h"

namespace talos {

using harness::Background;
using harness::Cluster;
using harness::contains;
using harness::Result;

constexpr double kRotationTimeout = 400;  // s; beside other tests
constexpr const char* kAllNodes =
    "10.5.0.2,10.5.0.3,10.5.0.5";  // those that the test does not restart

inline double nowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A client that calls all the time with one configuration, over a new connection each time.
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
  // Returns the failures of calls that ended before `until`.
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

// Returns the line of a client configuration with this key.
inline std::string lineOf(const std::string& config, const std::string& key) {
  std::smatch match;
  std::regex line("\n *" + key + ": [^\n]*");
  EXPECT_TRUE(std::regex_search(config, match, line)) << key;
  return match[0];
}

// Returns the arguments of talosctl for a rotation of the CA of the machine API.
inline std::vector<std::string> rotationOf(const std::string& planes, const std::string& workers,
                                           const std::string& output) {
  return {"rotate-ca",
          "--kubernetes=false",
          "--control-plane-nodes=" + planes,
          "--worker-nodes=" + workers,
          "--output",
          output};
}

class RotatedCluster {
 public:
  explicit RotatedCluster(const std::string& name)
      : cluster(name, {"--provisioner", "container", "--masters", "3", "--workers", "2"}),
        output(cluster.folder() + "/new-talosconfig"),
        oldTalosconfig(cluster.folder() + "/old-talosconfig") {
    std::ofstream(oldTalosconfig) << harness::slurp(cluster.talosconfig());
  }

  std::vector<std::string> rotate(std::vector<std::string> more,
                                  const std::string& planes = "10.5.0.2,10.5.0.3,10.5.0.4",
                                  const std::string& workers = "10.5.0.5,10.5.0.6") const {
    auto arguments = rotationOf(planes, workers, output);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cluster.command(arguments);
  }
  // Runs a rotation until the line is on stderr, and then kills it by SIGKILL. Restarts a node
  // after the line `first`: a run begins with all nodes up.
  void rotateUntil(const std::string& line, const std::string& first = "",
                   const std::string& restarted = "") const {
    Background run(rotate({"--dry-run=false"}), harness::Pace::kLineByLine);
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
    // The two endpoints that are not restarted.
    return with(talosconfig,
                {"-e", cluster.endpoint("10.5.0.2") + "," + cluster.endpoint("10.5.0.3"), "-n",
                 kAllNodes, "--timeout", "30s", "version"});
  }
  // Calls a node directly, from the network of the nodes, because workers' certificates require it.
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
  std::string oldTalosconfig;  // the context of cluster.talosconfig() gets the new CA
};

}  // namespace talos
