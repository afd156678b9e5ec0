// A control-plane node in a container that is upgraded to images which are no good, each with a
// fault of its own, in a cluster of three with etcd and a shared address, without Kubernetes. After
// each the node is on the system from before by itself and says why, the members of etcd are the
// same, and a key whose write was answered before is there.
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <ostream>
#include <regex>

#include "tests/bad-images/system-images.h"
#include "tests/cluster/etcd-nodes.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;

constexpr double kUpgradeTimeout = 600, kWellTimeout = 240;
constexpr const char *kVersion = "v9.9.1", *kFolder = "/tmp/bad-images";

enum class Outcome {
  kConfirmed,   // it is the system of the node now
  kGivenUp,     // it was tried, and the node has returned to the system from before
  kNotWritten,  // the node found the fault when it wrote it to the other slot
  kRefused,     // before anything was written
};
enum class Signature { kNotRequired, kNone, kOfAnother, kRight };
using Damage = std::string (SystemImages::*)(const std::string& version);

struct Row {
  const char* name;
  const char* mistake;  // of the system, that the row would catch
  std::vector<Fault> faults = {};
  Damage damage = nullptr;
  Outcome outcome = Outcome::kGivenUp;
  const char* reason = "";  // a regular expression
  bool preserve = true;
  Signature signature = Signature::kNotRequired;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << "catches: " << row.mistake;
}

const std::string kBrain = "usr/bin/machined", kEtcd = "usr/bin/etcd", kVipd = "usr/bin/vipd",
                  kNetworkd = "usr/bin/networkd";

// The header by which members recognise each other has another name.
const std::string kWithoutPeers = "patch X-Etcd-Cluster-ID X-Etcd-Altered-ID";
// Longer than the 5 s for which a system has to be healthy, shorter than a boot and those.
const std::string kCrashes = "crash 7 " + SystemImages::original(kBrain);

const Row kRows[] = {
    {.name = "WithoutAFault",
     .mistake = "an image of this test that no node could run, so that the others show nothing",
     .outcome = Outcome::kConfirmed},
    {.name = "InitEnds",
     .mistake = "a node that is off, or that starts it for ever, when the new process 1 ends",
     .faults = {{"usr/sbin/init", "exit"}},
     .reason = "\\(v9.9.1\\) did not come up: the boot loader could not load it, or it ended"},
    {.name = "BrainEnds",
     .mistake = "a node that stays on a system whose machined ends whenever it is started",
     .faults = {{kBrain, "exit"}},
     .reason = "\\(v9.9.1\\) did not come up: the boot loader could not load it, or it ended"},
    {.name = "BrainCrashesAgainAndAgain",
     .mistake = "a machined that is healthy between two crashes, and confirms its system there",
     .faults = {{kBrain, kCrashes}},
     .reason = "was not healthy within 30 s: .*service machined failed"},
    {.name = "ConfigIsNotUnderstood",
     .mistake = "a system that is kept though it cannot read the config of its node",
     .faults = {{"usr/libexec/talos/parse", "exit"}},
     .reason = "was given up: its boot failed: .*task loadConfig: .* cannot be read"},
    {.name = "NetworkdEnds",
     .mistake = "a system that nobody can reach, and that stays",
     .faults = {{kNetworkd, "exit"}},
     .reason = "\\(v9.9.1\\) was given up: .*networkd"},
    {.name = "NetworkdHangs",
     .mistake = "a boot that waits for its network for ever",
     .faults = {{kNetworkd, "hang"}},
     .reason = "\\(v9.9.1\\) was given up: .*networkd"},
    {.name = "ApidEnds",
     .mistake = "a system that is kept though nobody can call its API any more",
     .faults = {{"usr/bin/apid", "exit"}},
     .reason = "was given up: it was not healthy within 30 s: .*service apid is not up"},
    {.name = "ContainerdEnds",
     .mistake = "a system that is kept though it runs no containers",
     .faults = {{"usr/bin/containerd", "exit"}},
     .reason = "was given up: .*service cri is not up"},
    {.name = "EtcdEnds",
     .mistake = "a system that is kept though its etcd does not start",
     .faults = {{kEtcd, "exit"}},
     .reason = "was given up: it was not healthy within 30 s: .*service etcd "},
    {.name = "EtcdIsWithoutPeers",
     .mistake = "a system that is kept though its etcd runs alone, as no other member hears it",
     .faults = {{kEtcd, kWithoutPeers}},
     .reason = "was given up: it was not healthy within 30 s: .*voter of etcd: "},
    {.name = "EtcdCannotJoin",
     .mistake = "a member that has left for the upgrade, and does not come back with either system",
     .faults = {{kEtcd, kWithoutPeers}},
     .reason = "was given up: it was not healthy within 30 s: .*voter of etcd: ",
     .preserve = false},
    {.name = "VipdEnds",
     .mistake = "a system that is kept though its vipd ends, as one does that cannot bind",
     .faults = {{kVipd, "exit"}},
     .reason = "was given up: it was not healthy within 30 s: .*service vipd "},
    {.name = "VipdTakesNoPart",
     .mistake = "a system that is kept though no shared address would ever come to it",
     .faults = {{kVipd, "hang"}},
     .reason = "was given up: it was not healthy within 30 s: .*shared address 10\\.5\\.0\\.50: "},
    {.name = "RootWithoutItsEnd",
     .mistake = "a root image that is mounted and fails where its end is needed",
     .damage = &SystemImages::withoutItsEnd,
     .reason = "\\(v9.9.1\\) did not come up: the boot loader could not load it"},
    {.name = "ArchiveWithoutItsEnd",
     .mistake = "half of a system, written over the one that could be returned to",
     .damage = &SystemImages::cut,
     .outcome = Outcome::kRefused,
     .reason = "not an installer image: .* is cut off"},
    {.name = "DamagedArchive",
     .mistake = "a file that is not the one that the image promises, and is started",
     .damage = &SystemImages::damaged,
     .outcome = Outcome::kNotWritten,
     .reason = "rootfs\\.sqsh is damaged or cut off: its SHA-256 is "},
    {.name = "Unsigned",
     .mistake = "an image that nobody has signed, on a node that requires a signature",
     .outcome = Outcome::kRefused,
     .reason = "has no signature by the key of machine.install.imageKey",
     .signature = Signature::kNone},
    {.name = "SignedByAnother",
     .mistake = "a signature by a key that is not the one of the config",
     .outcome = Outcome::kRefused,
     .reason = "is not signed by the key of machine.install.imageKey: the signature does not fit",
     .signature = Signature::kOfAnother},
    {.name = "SignedByTheKey",
     .mistake = "signatures of this test that never fit, so that the two above show nothing",
     .outcome = Outcome::kConfirmed,
     .signature = Signature::kRight},
};

class BadImages : public testing::TestWithParam<Row> {
 public:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(kFolder);
    images = std::make_unique<SystemImages>(kFolder);
    nodes = std::make_unique<EtcdNodes>("badimages", 3,
                                        std::vector<std::string>{"--use-vip", "--bootstrap=true"});
  }
  static void TearDownTestSuite() {
    nodes = nullptr;
    images = nullptr;
    std::filesystem::remove_all(kFolder);
  }

 protected:
  static std::unique_ptr<EtcdNodes> nodes;
  static std::unique_ptr<SystemImages> images;

  static const EtcdNode& upgraded() { return (*nodes)[1]; }
  static const EtcdNode& other() { return (*nodes)[0]; }
  static Result run(std::vector<std::string> arguments, double deadline = 60) {
    return nodes->at(upgraded(), std::move(arguments), deadline);
  }
  // Empty: it does not answer.
  static std::string slot() {
    std::smatch match;
    auto line = run({"--timeout", "20s", "read", "/proc/cmdline"}).out;
    return std::regex_search(line, match, std::regex("talos.slot=([AB])")) ? match[1].str() : "";
  }
  static std::string status() {
    return run({"--timeout", "20s", "get", "upgradestatus", "-o", "yaml"}).out;
  }
  // The same without what is about the resource itself.
  static std::string record() {
    auto text = status();
    return text.substr(std::min(text.size(), text.find("\nspec:")));
  }
  // As the members that do not change see it. A member that joins anew has another id.
  static std::vector<std::string> members(bool ids) {
    std::vector<std::string> found;
    for (auto& line : harness::lines(nodes->etcdctl(other(), {"member", "list"}).out)) {
      found.push_back(ids ? line : line.substr(std::min(line.size(), line.find(", "))));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  // Each duty that a row is about is fulfilled before.
  static void awaitWell() {
    std::string lacks;
    EXPECT_TRUE(eventually(
        [&] {
          lacks = problem();
          return lacks.empty();
        },
        kWellTimeout, 1))
        << lacks;
  }
  static std::string problem() {
    auto stage = run({"--timeout", "20s", "get", "machinestatus"}).out;
    if (!contains(stage, "running")) return "the node does not run: " + stage;
    for (auto& node : nodes->all()) {
      if (nodes->voters(node) != 3) return nodes->members(node);
    }
    auto address = run({"--timeout", "20s", "get", "vipstatus"}).out;
    static const std::regex takesPart("10\\.5\\.0\\.50 .*( holder | waiting +\\S*master)");
    return std::regex_search(address, takesPart) ? "" : "no candidate: " + address;
  }
  static std::string printed(const std::vector<std::string>& lines) {
    std::string text;
    for (auto& line : lines) text += line + "\n";
    return text;
  }

  static Result upgrade(const Row& row) {
    auto image = row.damage != nullptr ? ((*images).*row.damage)(kVersion)
                                       : images->make(kVersion, row.faults);
    if (row.signature == Signature::kOfAnother) images->sign(image, "another");
    if (row.signature == Signature::kRight) images->sign(image, "own");
    std::vector<std::string> command = {"upgrade", "--image", image};
    if (row.preserve) command.push_back("--preserve");
    if (row.outcome != Outcome::kConfirmed) {
      command.insert(command.end(), {"--health-timeout", "30s"});
    }
    return run(command, kUpgradeTimeout);
  }
  // For the rows with a signature.
  static void requireKey(bool required) {
    std::string patch = R"([{"op": "remove", "path": "/machine/install/imageKey"}])";
    if (required) {
      images->makeKey("another");
      auto pem = std::regex_replace(images->makeKey("own"), std::regex("\n"), "\\n");
      patch = R"([{"op": "add", "path": "/machine/install/imageKey", "value": ")" + pem + "\"}]";
    }
    auto patched = run({"patch", "machineconfig", "--mode=no-reboot", "-p", patch});
    EXPECT_EQ(0, patched.status) << patched.err;
  }

  // Without the progress of what was sent.
  static std::string without(const std::string& text, const std::string& part) {
    std::string left;
    for (auto& line : harness::lines(text)) {
      if (!contains(line, part)) left += line + "\n";
    }
    return left;
  }
  static std::string upgradeEvents() {
    std::string events;
    for (auto& line : harness::lines(run({"events", "--tail", "-1", "--once"}).out)) {
      if (contains(line, "UpgradeEvent")) events += line + "\n";
    }
    return events;
  }

  static void expectSaid(const std::string& text, const char* reason, const char* where) {
    EXPECT_TRUE(std::regex_search(text, std::regex(reason)))
        << where << " lacks: " << reason << "\n"
        << text;
  }
};
std::unique_ptr<EtcdNodes> BadImages::nodes;
std::unique_ptr<SystemImages> BadImages::images;

}  // namespace

TEST_P(BadImages, ReturnsToTheSystemFromBefore) {
  auto& row = GetParam();
  ASSERT_NE(nodes, nullptr);
  awaitWell();
  bool required = row.signature != Signature::kNotRequired;
  if (required) requireKey(true);
  auto key = std::string("/bad-images/") + row.name;
  ASSERT_TRUE(nodes->put(upgraded(), key, row.mistake));
  auto slotBefore = slot(), recordBefore = record(), bootBefore = nodes->bootId(upgraded());
  auto membersBefore = members(row.preserve);
  ASSERT_EQ(3u, membersBefore.size());

  auto begin = std::chrono::steady_clock::now();
  auto result = upgrade(row);
  result.err = without(result.err, "sending /");
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cerr << "-- " << row.name << ": " << took.count() << " s\n" << result.err;

  bool reboots = row.outcome == Outcome::kConfirmed || row.outcome == Outcome::kGivenUp;
  EXPECT_EQ(row.outcome == Outcome::kConfirmed, result.status == 0) << result.out;
  EXPECT_EQ(row.outcome == Outcome::kConfirmed, slot() != slotBefore) << status();
  EXPECT_EQ(reboots, nodes->bootId(upgraded()) != bootBefore);
  expectSaid(result.err, row.reason, "talosctl upgrade");
  if (row.outcome == Outcome::kRefused) {
    EXPECT_EQ(recordBefore, record());
  } else {
    auto now = status();
    EXPECT_TRUE(contains(now, row.outcome == Outcome::kConfirmed ? "stage: done" : "stage: failed"))
        << now;
    expectSaid(now, row.reason, "upgradestatus");
    expectSaid(upgradeEvents(), row.reason, "the event log");
  }
  if (required) requireKey(false);

  awaitWell();
  EXPECT_EQ(membersBefore, members(row.preserve)) << printed(members(true));
  for (auto& node : nodes->all()) EXPECT_EQ(std::string(row.mistake) + "\n", nodes->get(node, key));
  EXPECT_TRUE(nodes->put(upgraded(), key, "again"));
}

INSTANTIATE_TEST_SUITE_P(Upgrade, BadImages, testing::ValuesIn(kRows),
                         [](auto& row) { return row.param.name; });

}  // namespace talos
