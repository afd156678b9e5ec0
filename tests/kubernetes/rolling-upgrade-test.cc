// `talosctl upgrade-cluster` for real: three control-plane nodes and two workers in containers,
// with Kubernetes, are upgraded from one system to another and back, while a client writes to the
// API through the shared address. Each run but the first is interrupted at another step, and
// started again. The cost of each run is printed, and is no condition: it depends on the machine.
//
//   ROLLING_UPGRADES=all   five times there and back, and every interruption (default: one of each)
//   ROLLING_UPGRADES=TEXT  the interruptions with this in their names
//   ROLLING_FIGURES=FILE   write the cost of the first, uninterrupted run as JSON; no further run
#include <gmock/gmock.h>
#include <stdlib.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "common/kube/json.h"
#include "tests/kubernetes/api-writer.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

// A clock that counts each moment for the step of the latest event: workers, too, are upgraded one
// after the other.
class StepClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Reads the output of the run so far, JSON lines.
  void read(const std::string& out, Clock::time_point now);
  // Returns the seconds of "fetch", "plan", "wait", "drain", "write", "away", "trial".
  std::map<std::string, double> seconds() const { return spent; }
  // Returns the step that an event's message belongs to.
  static std::string stepOf(const std::string& message);

 private:
  size_t seen = 0;  // bytes of whole lines
  std::string step = "plan";
  Clock::time_point since = Clock::now();
  std::map<std::string, double> spent;
};

struct RunCost {
  std::string version, interruption;
  double seconds = 0;
  ApiWriter::Figures writes;
  int leaderChanges = 0, podsRestarted = 0;
  std::map<std::string, double> steps;

  std::string row() const;
  std::string json() const;
};

std::string StepClock::stepOf(const std::string& message) {
  static const struct {
    const char *text, *step;
  } kSteps[] = {{"fetch", "fetch"},      {"drain: ", "drain"},  {"writing", "write"},
                {"rebooting", "away"},   {"no answer", "away"}, {"trying slot", "trial"},
                {"running slot", "wait"}};
  for (auto& [text, step] : kSteps) {
    if (message.starts_with(text) || harness::contains(message, std::string(" ") + text)) {
      return step;
    }
  }
  return "wait";
}

void StepClock::read(const std::string& out, Clock::time_point now) {
  for (size_t end; (end = out.find('\n', seen)) != std::string::npos; seen = end + 1) {
    auto event = kube::Json::parse(out.substr(seen, end - seen), nullptr, false);
    if (event.is_discarded() || !event.contains("message")) continue;
    spent[step] += std::chrono::duration<double>(now - since).count();
    since = now;
    step = stepOf(event["message"].get<std::string>());
  }
}

std::string RunCost::row() const {
  char row[400];
  snprintf(row, sizeof row, "| %s | %s | %.0f s | %u | %u | %u | %.1f s | %d | %d |\n",
           version.c_str(), interruption.c_str(), seconds, writes.calls, writes.failed, writes.lost,
           writes.longest, leaderChanges, podsRestarted);
  return row;
}

std::string RunCost::json() const {
  kube::Json line{{"seconds", seconds},
                  {"calls", writes.calls},
                  {"failed", writes.failed},
                  {"lost", writes.lost},
                  {"longestS", writes.longest},
                  {"leaderChanges", leaderChanges},
                  {"podsRestarted", podsRestarted},
                  {"steps", steps}};
  return line.dump() + "\n";
}

constexpr double kUpgrade = 1800, kWell = 420;  // seconds, on a busy machine
constexpr const char* kVersions[] = {"v9.9.1", "v9.9.2"};

struct Interruption {
  enum class How { kNone, kKillClient, kPowerCut, kPowerCutOther };

  const char* name;
  How how = How::kNone;
  const char* after = nullptr;  // an event of the run with this text
  bool always = false;
};

using How = Interruption::How;

const Interruption kInterruptions[] = {
    {.name = "none", .always = true},
    {.name = "client killed while nodes fetch",
     .how = How::kKillClient,
     .after = "fetching the image"},
    {.name = "client killed at the first drain", .how = How::kKillClient, .after = "drain: "},
    {.name = "client killed at the first write", .how = How::kKillClient, .after = "writing to"},
    {.name = "client killed at the first reboot",
     .how = How::kKillClient,
     .after = "no answer",
     .always = true},
    {.name = "client killed at the first trial", .how = How::kKillClient, .after = "trying slot"},
    {.name = "client killed after the first node",
     .how = How::kKillClient,
     .after = "upgraded to v"},
    {.name = "power cut of the node that fetches",
     .how = How::kPowerCut,
     .after = "fetching the image"},
    {.name = "power cut of the node that drains", .how = How::kPowerCut, .after = "drain: "},
    {.name = "power cut of the node that writes", .how = How::kPowerCut, .after = "writing to"},
    {.name = "power cut of the node on trial", .how = How::kPowerCut, .after = "trying slot"},
    {.name = "power cut of another control plane, first drain",
     .how = How::kPowerCutOther,
     .after = "drain: "},
    {.name = "power cut of another control plane, first write",
     .how = How::kPowerCutOther,
     .after = "writing to"},
    {.name = "power cut of another control plane, first trial",
     .how = How::kPowerCutOther,
     .after = "trying slot"},
};

class RollingUpgrade : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::unique_ptr<ApiWriter> writer;
  std::vector<RunCost> costs;
  std::map<std::string, std::string> digests;  // of the archives, by version
  unsigned made = 0;                           // upgrades

  void TearDown() override {
    writer = nullptr;
    cluster = nullptr;
    KubeHost::TearDown();
  }

  std::string archive(const std::string& version) const { return folder + "/" + version + ".tar"; }
  void makeArchives();
  void upgrade(const Interruption& interruption);
  void interrupt(const Interruption& interruption, harness::Background& run);
  std::vector<std::string> command(const std::string& version) const;
  uint64_t etcdTerm() const;
  unsigned restarts() const;
  void expectVersion(const std::string& version) const;
  void awaitWrites(unsigned more) const;
  const KubeNode& nodeAt(const std::string& address) const;
};

// Makes archives of the running image, each with another version.
void RollingUpgrade::makeArchives() {
  for (auto version : kVersions) {
    auto made = harness::run(
        {"env", std::string("VERSION=") + version, std::string(getenv("ROOTFS")) + "/installer.sh",
         getenv("IMAGE"), archive(version)},
        300);
    ASSERT_EQ(made.status, 0) << made.err;
    auto sum = harness::run({"sha256sum", archive(version)}, 60);
    ASSERT_EQ(sum.status, 0) << sum.err;
    digests[version] = sum.out.substr(0, 64);
  }
}

std::vector<std::string> RollingUpgrade::command(const std::string& version) const {
  return {"-n",
          cluster->nodes[0].address,
          "upgrade-cluster",
          "--image",
          archive(version),
          "--yes",
          "-o",
          "json"};
}

// Returns etcd's term, which grows by one with each election.
uint64_t RollingUpgrade::etcdTerm() const {
  auto answer =
      cluster->talos.ok({"-n", cluster->nodes[0].address, "etcd", "status", "-o", "json"});
  auto at = answer.find("\"raftTerm\"");
  if (at == std::string::npos) return 0;
  return strtoull(answer.c_str() + answer.find_first_of("0123456789", at), nullptr, 10);
}

unsigned RollingUpgrade::restarts() const {
  unsigned count = 0;
  for (auto& [name, pod] : cluster->pods()) count += pod.over ? 0 : pod.restarts;
  return count;
}

void RollingUpgrade::expectVersion(const std::string& version) const {
  for (auto& node : cluster->nodes) {
    auto state = cluster->talos.ok(cluster->at(node, {"get", "upgradestatus", "-o", "json"}));
    EXPECT_THAT(state, testing::HasSubstr(digests.at(version))) << node.name;
    EXPECT_THAT(state, testing::HasSubstr("\"done\"")) << node.name;
  }
  auto members = cluster->talos.ok({"-n", cluster->nodes[0].address, "etcd", "members"});
  for (auto& node : cluster->nodes) {
    EXPECT_EQ(contains(members, node.name), node.controlPlane) << members;
  }
}

void RollingUpgrade::awaitWrites(unsigned more) const {
  unsigned enough = writer->succeeded + more;
  EXPECT_TRUE(eventually([&] { return writer->succeeded >= enough; }, kWell))
      << "the client's writes do not succeed\n"
      << cluster->overview();
}

const KubeNode& RollingUpgrade::nodeAt(const std::string& address) const {
  for (auto& node : cluster->nodes) {
    if (node.address == address) return node;
  }
  KJ_FAIL_REQUIRE("there is no such node", address.c_str());
}

// Interrupts the run after the last event with this text: kills the client, or cuts the power of
// the event's node or of another one.
void RollingUpgrade::interrupt(const Interruption& interruption, harness::Background& run) {
  ASSERT_TRUE(
      run.waitFor([&](auto& out, auto&) { return contains(out, interruption.after); }, kUpgrade))
      << run.out() << run.err();
  if (interruption.how == How::kKillClient) return;  // with the object
  std::string address;
  for (auto& line : harness::lines(run.out())) {
    if (!contains(line, interruption.after)) continue;
    auto event = kube::Json::parse(line);
    if (event.contains("node")) address = event["node"].get<std::string>();
  }
  auto* node = &nodeAt(address);
  if (interruption.how == How::kPowerCutOther) {
    node = node == &cluster->nodes[0] ? &cluster->nodes[1] : &cluster->nodes[0];
  }
  fprintf(stderr, "    power cut of %s\n", node->name.c_str());
  cluster->talos.ok({"cluster", "node", "kill", node->name});
  cluster->talos.ok({"cluster", "node", "start", node->name});
  // The run ends by itself; whether it stops at this step depends on the moment.
  EXPECT_NE(run.finish(kUpgrade), -1) << run.out() << run.err();
}

void RollingUpgrade::upgrade(const Interruption& interruption) {
  SCOPED_TRACE(std::string("interruption: ") + interruption.name);
  std::string version = kVersions[made++ % 2];
  auto term = etcdTerm();
  auto restarted = restarts();
  writer->take();
  if (interruption.how != How::kNone) {
    harness::Background run(cluster->talos.command(command(version)));
    interrupt(interruption, run);
  }
  RunCost cost;
  cost.version = version;
  cost.interruption = interruption.name;
  auto begin = StepClock::Clock::now();
  harness::Background last(cluster->talos.command(command(version)));
  StepClock steps;
  last.waitFor(
      [&](auto& out, auto&) {
        steps.read(out, StepClock::Clock::now());
        return false;
      },
      kUpgrade);
  auto status = last.finish(60);
  cost.seconds = std::chrono::duration<double>(StepClock::Clock::now() - begin).count();
  cost.writes = writer->take();
  cost.leaderChanges = static_cast<int>(etcdTerm() - term);
  cost.podsRestarted = static_cast<int>(restarts() - restarted);
  cost.steps = steps.seconds();
  costs.push_back(cost);
  fprintf(stderr, "%s    %s    last failure: %s\n", cost.row().c_str(), cost.json().c_str(),
          cost.writes.error.c_str());
  ASSERT_EQ(status, 0) << last.out() << last.err() << cluster->overview();
  expectVersion(version);
  cluster->awaitSystem();
  cluster->awaitPods("default", "app=web", cluster->nodes.size(), kPodsUp);
  awaitWrites(4);
  writer->checkWritten(*cluster);
}

// Catches: a run that stops or breaks the cluster; a run that cannot be continued after an
// interruption at some step; a node that comes back with its old system, or that is left cordoned;
// a member that is lost or doubled; an answered write that is lost.
TEST_F(RollingUpgrade, ThereAndBackWhileAClientWrites) {
  auto given = getenv("ROLLING_UPGRADES");
  std::string which = given == nullptr ? "" : given;
  bool all = which == "all";
  ASSERT_NO_FATAL_FAILURE(makeArchives());
  cluster = std::make_unique<KubeCluster>("rolling", 3, 2, std::vector<std::string>{"--use-vip"});
  cluster->awaitSystem();
  cluster->apply(kWebServers);
  cluster->apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " +
                 std::string(ApiWriter::kObject) + "}\n");
  cluster->awaitPods("default", "app=web", cluster->nodes.size(), kPodsUp);
  if (HasFailure()) return;
  writer = std::make_unique<ApiWriter>(placeOf(cluster->segment()),
                                       harness::slurp(cluster->kubeconfigPath()));
  awaitWrites(4);
  auto file = getenv("ROLLING_FIGURES");
  for (auto& interruption : kInterruptions) {
    bool chosen = which.empty() ? interruption.always : all || contains(interruption.name, which);
    if (!HasFailure() && chosen) upgrade(interruption);
    if (file != nullptr) break;
  }
  for (unsigned plain = 1; all && !HasFailure() && plain < 10; ++plain) upgrade(kInterruptions[0]);
  if (file != nullptr && !costs.empty()) std::ofstream(file) << costs[0].json();
  fprintf(stderr,
          "| to | interruption | from then on | writes | failed | failed twice | no answer for at "
          "most | leader changes | pods restarted |\n|---|---|---|---|---|---|---|---|---|\n");
  for (auto& cost : costs) fprintf(stderr, "%s", cost.row().c_str());
}

// One replica that no budget lets go, in a pod that does not end by itself.
constexpr const char* kHeld = R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: held}
spec:
  selector: {matchLabels: {app: held}}
  template:
    metadata: {labels: {app: held}}
    spec:
      terminationGracePeriodSeconds: 3600
      containers:
      - name: held
        image: busybox:1.37
        command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: held}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: held}}}
)";

// Catches: a run that begins although a node is off, or although it would wait forever for a pod; a
// run that does not report this; a run that cannot be made to continue.
TEST_F(RollingUpgrade, WhatIsInTheWayIsSaidBeforeAnythingChanges) {
  ASSERT_NO_FATAL_FAILURE(makeArchives());
  cluster = std::make_unique<KubeCluster>("inway", 1, 2);
  cluster->awaitSystem();
  cluster->apply(kHeld);
  cluster->awaitPods("default", "app=held", 1, kPodsUp);
  if (HasFailure()) return;
  auto states = [&] {  // one after the other: rows of several nodes come as these answer
    std::string all;
    for (auto& node : cluster->nodes) {
      all += cluster->talos.ok({"-n", node.address, "get", "upgradestatus"});
    }
    return all;
  };
  auto before = states();
  auto refused = [&](const char* why, const char* remedy) {
    auto result = cluster->talos.talosctl(command(kVersions[0]), kUpgrade);
    fprintf(stderr, "    after %.0f s: %s", result.seconds, result.err.c_str());
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, testing::HasSubstr(why));
    EXPECT_THAT(result.err, testing::HasSubstr(remedy));
    EXPECT_THAT(result.err, testing::HasSubstr("nothing was changed"));
    EXPECT_EQ(states(), before);
  };
  refused("PodDisruptionBudget default/held", "or use --ignore-budgets");

  auto& off = cluster->nodes[2];
  cluster->talos.ok({"cluster", "node", "kill", off.name});
  auto result = cluster->talos.talosctl(command(kVersions[0]), kUpgrade);
  fprintf(stderr, "    after %.0f s: %s", result.seconds, result.err.c_str());
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, testing::HasSubstr(off.address + ": it does not answer"));
  EXPECT_THAT(result.err, testing::HasSubstr("nothing was changed"));
  cluster->talos.ok({"cluster", "node", "start", off.name});
  cluster->awaitSystem();
  EXPECT_EQ(states(), before);

  auto words = command(kVersions[0]);
  words.push_back("--ignore-budgets");
  auto done = cluster->talos.talosctl(words, kUpgrade);
  fprintf(stderr, "    with --ignore-budgets %.0f s: %s", done.seconds, done.err.c_str());
  EXPECT_EQ(done.status, 0) << done.out;
  expectVersion(kVersions[0]);
  cluster->awaitPods("default", "app=held", 1, kPodsUp);
}

}  // namespace
}  // namespace talos
