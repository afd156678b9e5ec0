#include "tests/bad-images/bad-images.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <regex>

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;

constexpr const char *kVersion = "v9.9.1", *kFolder = "/tmp/bad-images";

Site site;
std::unique_ptr<EtcdNodes> nodes;
std::unique_ptr<SystemImages> images;

const EtcdNode& upgraded() {
  return (*nodes)[site.upgraded];
}
// A container: etcdctl runs in the network of one.
const EtcdNode& other() {
  return (*nodes)[0];
}
const EtcdNode& writer() {
  return site.machine ? other() : upgraded();
}
Result run(std::vector<std::string> arguments, double deadline = 60) {
  return nodes->at(upgraded(), std::move(arguments), deadline);
}
// Returns the running slot; empty if the node does not answer.
std::string slot() {
  std::smatch match;
  auto line = run({"--timeout", "20s", "read", "/proc/cmdline"}).out;
  return std::regex_search(line, match, std::regex("talos.slot=([AB])")) ? match[1].str() : "";
}
std::string status() {
  return run({"--timeout", "20s", "get", "upgradestatus", "-o", "yaml"}).out;
}
// Returns the status without the part about the resource itself.
std::string record() {
  auto text = status();
  return text.substr(std::min(text.size(), text.find("\nspec:")));
}
// Returns the members as an unchanged member sees them. A member that joins again has another id.
std::vector<std::string> members(bool ids) {
  std::vector<std::string> found;
  for (auto& line : harness::lines(nodes->etcdctl(other(), {"member", "list"}).out)) {
    found.push_back(ids ? line : line.substr(std::min(line.size(), line.find(", "))));
  }
  std::sort(found.begin(), found.end());
  return found;
}
std::string problem() {
  auto stage = run({"--timeout", "20s", "get", "machinestatus"}).out;
  if (!contains(stage, "running")) return "the node does not run: " + stage;
  for (auto& node : nodes->all()) {
    if (nodes->voters(node) != 3) return nodes->members(node);
  }
  auto address = run({"--timeout", "20s", "get", "vipstatus"}).out;
  static const std::regex takesPart("10\\.5\\.0\\.50 .*( holder | waiting +\\S*master)");
  return std::regex_search(address, takesPart) ? "" : "no candidate: " + address;
}
// Each duty that a row is about is fulfilled before.
void awaitWell() {
  std::string lacks;
  EXPECT_TRUE(eventually(
      [&] {
        lacks = problem();
        return lacks.empty();
      },
      site.isWell, 1))
      << lacks;
}
std::string printed(const std::vector<std::string>& lines) {
  std::string text;
  for (auto& line : lines) text += line + "\n";
  return text;
}

Result upgrade(const Row& row) {
  auto image = row.damage != nullptr ? ((*images).*row.damage)(kVersion)
                                     : images->make(kVersion, row.faults);
  if (row.signature == Signature::kOfAnother) images->sign(image, "another");
  if (row.signature == Signature::kRight) images->sign(image, "own");
  std::vector<std::string> command = {"upgrade", "--image", image};
  if (row.preserve) command.push_back("--preserve");
  if (row.outcome != Outcome::kConfirmed) {
    command.insert(command.end(), {"--health-timeout", std::to_string(site.healthTimeout) + "s"});
  }
  return run(command, site.isUpgraded);
}
// Requires signed images, or not; for the rows with a signature.
void requireKey(bool required) {
  std::string patch = R"([{"op": "remove", "path": "/machine/install/imageKey"}])";
  if (required) {
    images->makeKey("another");
    auto pem = std::regex_replace(images->makeKey("own"), std::regex("\n"), "\\n");
    patch = R"([{"op": "add", "path": "/machine/install/imageKey", "value": ")" + pem + "\"}]";
  }
  auto patched = run({"patch", "machineconfig", "--mode=no-reboot", "-p", patch});
  EXPECT_EQ(0, patched.status) << patched.err;
}

// Returns the text without the lines that contain `part`, such as the progress of a transfer.
std::string without(const std::string& text, const std::string& part) {
  std::string left;
  for (auto& line : harness::lines(text)) {
    if (!contains(line, part)) left += line + "\n";
  }
  return left;
}
std::string upgradeEvents() {
  std::string events;
  for (auto& line : harness::lines(run({"events", "--tail", "-1", "--once"}).out)) {
    if (contains(line, "UpgradeEvent")) events += line + "\n";
  }
  return events;
}

void expectSaid(const std::string& text, const char* reason, const char* where) {
  EXPECT_TRUE(std::regex_search(text, std::regex(reason))) << where << " lacks: " << reason << "\n"
                                                           << text;
}

}  // namespace

void PrintTo(const Row& row, std::ostream* out) {
  *out << "catches: " << row.mistake;
}

void BadImages::begin(Site s) {
  site = std::move(s);
  std::filesystem::create_directories(kFolder);
  images = std::make_unique<SystemImages>(kFolder);
  nodes = std::make_unique<EtcdNodes>(site.name, 3, site.flags, site.comesUp);
}

void BadImages::end() {
  nodes = nullptr;
  images = nullptr;
  std::filesystem::remove_all(kFolder);
}

void BadImages::returnsToTheSystemFromBefore(const Row& row) {
  ASSERT_NE(nodes, nullptr);
  awaitWell();
  bool required = row.signature != Signature::kNotRequired;
  if (required) requireKey(true);
  auto key = std::string("/bad-images/") + row.name;
  ASSERT_TRUE(nodes->put(writer(), key, row.mistake));
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
  for (auto& node : nodes->all()) {
    if (site.machine && node.name == upgraded().name) continue;
    EXPECT_EQ(std::string(row.mistake) + "\n", nodes->get(node, key));
  }
  EXPECT_TRUE(nodes->put(writer(), key, "again"));
}

}  // namespace talos
