#include "tests/day/operations.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "tests/cluster/rotated-cluster.h"

namespace talos::day {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;
using Way = VipSegment::Way;

constexpr double kCommand = 600, kComesBack = 300;  // s, also on a busy machine
constexpr unsigned kClients = 3;                    // that patch a config at once
constexpr unsigned kLabels = 20;                    // names of labels that are used again
constexpr const char* kLabel = "example.com/day-";

std::string textOf(const Result& result) {
  return result.out + result.err;
}

std::string labelPatch(const std::string& name, unsigned value) {
  return "machine: {nodeLabels: {" + (kLabel + name) + ": \"" + std::to_string(value) + "\"}}";
}

// Returns the config without the labels of this test, which other operations change meanwhile.
std::string withoutLabels(const std::string& config) {
  std::string left;
  for (auto& line : harness::lines(config)) {
    if (!contains(line, kLabel) && !contains(line, "nodeLabels:")) left += line + "\n";
  }
  return left;
}

}  // namespace

void Operations::begin(const Operation& it, bool alone) {
  auto& run = running[it.number];
  run.alone = alone;
  if (clients != nullptr && it.node != kWorker) run.failuresBefore = clients->failures(it.node);
  try {
    run.heal = strike(it);
  } catch (const std::exception& failure) {
    run.failure = failure.what();
    return;
  }
  if (run.heal) return;
  run.command = std::async(std::launch::async, [this, it, alone] {
    try {
      return command(it, alone);
    } catch (const std::exception& failure) {
      return std::string(failure.what());
    }
  });
}

std::string Operations::end(const Operation& it) {
  auto run = std::move(running.at(it.number));
  running.erase(it.number);
  bool isCut = it.kind == Kind::kCutOff && it.node != kWorker && clients != nullptr;
  if (isCut && clients->failures(it.node) > run.failuresBefore) states.visit("cut off");
  if (!run.failure.empty()) return run.failure;
  if (!run.heal) return run.command.get();
  try {
    run.heal();
  } catch (const std::exception& failure) {
    return failure.what();
  }
  return "";
}

// Returns nothing for an operation that is a command.
Heal Operations::strike(const Operation& it) {
  switch (it.kind) {
    case Kind::kPowerCut:
      return nodes.lose(it.node);
    case Kind::kPause:
      return nodes.freeze(it.node);
    case Kind::kCutOff:
      return nodes.cutOff(it.node, Way::kBoth);
    case Kind::kDeaf:
      return nodes.cutOff(it.node, Way::kToNode);
    case Kind::kMute:
      return nodes.cutOff(it.node, Way::kFromNode);
    case Kind::kCutLink:
      return nodes.cutLink(it.node, it.peer.value());
    case Kind::kSlowLink:
      return nodes.slowLink(it.node);
    case Kind::kFullDisk: {
      auto folder = nodes.cluster.folder() + "/full-" + std::to_string(it.number);
      auto process1 = nodes.cluster.process(nodes.nodeName(it.node));
      auto disk = std::make_shared<std::unique_ptr<harness::FilledDisk>>(
          std::make_unique<harness::FilledDisk>(folder, process1));
      return [disk] { disk->reset(); };
    }
    case Kind::kKill:
      nodes.kill(it.node, it.program);
      return [] {};
    case Kind::kStop:
      return nodes.stop(it.node, it.program);
    default:
      return nullptr;
  }
}

std::string Operations::must(bool alone, const Result& result) {
  if (!alone || result.status == 0) return "";
  return "exit status " + std::to_string(result.status) + ": " + textOf(result);
}

std::string Operations::command(const Operation& it, bool alone) {
  switch (it.kind) {
    case Kind::kReboot:
      return must(alone, nodes.call(it.node, {"reboot"}, kCommand));
    case Kind::kPatch:
      return patch(it, alone);
    case Kind::kTry:
      return tryChange(it, alone);
    case Kind::kBadConfig:
      return badConfig(it);
    case Kind::kUpgrade:
      return must(alone, nodes.call(it.node, {"upgrade", "--image", nodes.goodImage, "--preserve"},
                                    kCommand));
    case Kind::kRollback:
      // Is refused by a node without another system; after a bad image that one is given up again.
      nodes.call(it.node, {"rollback", "--health-timeout", "90s"}, kCommand);
      return "";
    case Kind::kBadImage:
      return badImage(it, alone);
    case Kind::kReset:
      return reset(it, alone);
    case Kind::kTokenJoin:
      return tokenJoin(it, alone);
    case Kind::kRenew:
      return renew(it, alone);
    case Kind::kRotate:
      return rotate(it);
    case Kind::kSnapshot: {
      auto file = nodes.cluster.folder() + "/snapshot-" + std::to_string(it.number);
      auto result = nodes.call(it.node, {"etcd", "snapshot", file}, kCommand);
      std::error_code none;
      std::filesystem::remove(file, none);
      return must(alone, result);
    }
    case Kind::kForfeit:
      return must(alone, nodes.call(it.node, {"etcd", "forfeit-leadership"}, kCommand));
    default:
      return "the operation is neither a fault nor a command";
  }
}

// An answered change is in the node's config, unless the node says that it went back.
std::string Operations::patch(const Operation& it, bool alone) {
  std::vector<std::future<Result>> patches;
  auto nameOf = [&](unsigned client) {
    return std::to_string(it.number % kLabels) + "-" + std::to_string(client);
  };
  for (unsigned client = 0; client < kClients; ++client) {
    patches.push_back(std::async(std::launch::async, [&, client] {
      return nodes.call(
          it.node,
          {"patch", "mc", "--mode=no-reboot", "-p", labelPatch(nameOf(client), it.salt + client)},
          kCommand);
    }));
  }
  std::vector<unsigned> answered;
  std::string problem;
  for (unsigned client = 0; client < kClients; ++client) {
    auto result = patches[client].get();
    if (result.status == 0) answered.push_back(client);
    if (problem.empty()) problem = must(alone, result);
  }
  if (!problem.empty()) return problem;
  for (auto client : answered) {
    auto line = (kLabel + nameOf(client)) + ": \"?" + std::to_string(it.salt + client);
    std::string config;
    bool isThere = eventually(
        [&] {
          config = nodes.config(it.node);
          return !config.empty();
        },
        kComesBack, 1);
    if (isThere && std::regex_search(config, std::regex(line))) continue;
    auto status = nodes.shown(it.node, {"status"});
    if (contains(status, "went back") || contains(status, "comes back")) continue;
    return "an answered patch is not in the config: " + line + "\n" + status;
  }
  return "";
}

std::string Operations::tryChange(const Operation& it, bool alone) {
  auto name = "try-" + std::to_string(it.number);
  auto result = nodes.call(
      it.node, {"patch", "mc", "--mode=try", "--timeout", "20s", "-p", labelPatch(name, it.salt)},
      kCommand);
  if (auto problem = must(alone, result); !problem.empty()) return problem;
  bool isBack = eventually(
      [&] {
        auto running = nodes.call(it.node, {"--timeout", "10s", "get", "mc", "-o", "yaml"}, 30).out;
        return !running.empty() && !contains(running, kLabel + name);
      },
      kComesBack, 1);
  return isBack ? "" : "a config that was tried does not go back";
}

std::string Operations::badConfig(const Operation& it) {
  harness::Draw draw(it.salt, it.number);
  changes::Place place{.address = nodes.address(it.node), .client = "10.5.0.1"};
  for (unsigned i = 0; i < kControlPlanes; ++i) {
    if (i != it.node) place.others.push_back(nodes.address(i));
  }
  std::vector<changes::Change> possible;
  for (auto kind : changes::kindsOn(changes::kTrio, true)) {
    auto change = kind->draw(draw, place);
    if (!change.cutsOff && !change.reboots) possible.push_back(std::move(change));
  }
  auto& change = draw.oneOf(possible);
  auto before = nodes.config(it.node);
  nodes.call(it.node, {"patch", "mc", "--mode=no-reboot", "--trial-timeout=1m", "-p", change.patch},
             kCommand);
  return badConfigResult(it, before, change.patch);
}

// The change was refused, or is on trial and goes back.
std::string Operations::badConfigResult(const Operation& it, const std::string& before,
                                        const std::string& patch) {
  std::string status, config;
  bool isBack = eventually(
      [&] {
        status = nodes.shown(it.node, {"status"});
        config = nodes.config(it.node);
        return !config.empty() && withoutLabels(config) == withoutLabels(before) &&
               !contains(status, "on trial") && !contains(status, "comes back");
      },
      2 * kComesBack, 1);
  if (contains(status, "the last change of the config went back")) states.visit("config went back");
  if (isBack || before.empty()) return "";
  return "a bad config stays: " + patch + "\n" + status;
}

std::string Operations::badImage(const Operation& it, bool alone) {
  auto result = nodes.call(
      it.node, {"upgrade", "--image", nodes.badImage, "--preserve", "--health-timeout", "30s"},
      kCommand);
  if (result.status == 0) return "an upgrade to a bad system succeeded: " + textOf(result);
  std::string status;
  bool isGivenUp = eventually(
      [&] {
        status = nodes.shown(it.node, {"get", "upgradestatus", "-o", "yaml"});
        return contains(status, "stage: failed");
      },
      kComesBack, 1);
  if (isGivenUp) states.visit("system given up");
  return isGivenUp || !alone ? "" : "no system was given up: " + textOf(result) + status;
}

std::string Operations::reset(const Operation& it, bool alone) {
  auto before = nodes.member(it.node);
  auto result = nodes.call(
      it.node, {"reset", "--graceful", "--reboot", "--system-labels-to-wipe", "EPHEMERAL"},
      kCommand);
  if (auto problem = must(alone, result); !problem.empty()) return problem;
  if (result.status != 0) return "";
  bool joined = eventually(
      [&] {
        auto now = nodes.member(it.node);
        return !now.empty() && now != before &&
               contains(nodes.shown(it.node, {"get", "etcdstatus", "-o", "yaml"}), "voters: 3");
      },
      kComesBack, 1);
  if (joined) states.visit("member promoted");
  return joined || !alone ? "" : "the member that was reset is no voter again";
}

std::string Operations::tokenJoin(const Operation& it, bool alone) {
  Result created;
  unsigned by = it.salt % kControlPlanes;
  for (unsigned i = 0; i < kControlPlanes; ++i) {
    created = nodes.call((by + i) % kControlPlanes, {"token", "create", "--ttl", "1h"}, 60);
    if (created.status == 0) break;
  }
  if (created.status != 0) return must(alone, created);
  auto token = created.out.substr(0, created.out.find('\n'));
  secrets.add({"join token of operation " + std::to_string(it.number),
               token.substr(std::min(token.size(), token.find('.') + 1))});
  auto& name = nodes.nodeName(it.node);
  // The config as it is now: patches are not stored in the state folder, and a rotation of the CA
  // does not store the config of a node that it did not reach at its end.
  auto config = nodes.config(it.node);
  if (!config.empty()) std::ofstream(nodes.cluster.stateFolder() + "/" + name + ".yaml") << config;
  nodes.power("kill", it.node);
  nodes.cluster.eraseAll(name);
  nodes.cluster.setJoinToken(name, token);
  nodes.power("start", it.node);
  Result listed;
  bool isSpent = eventually(
      [&] {
        listed = nodes.call(by, {"--timeout", "10s", "token", "list", "-o", "json"}, 30);
        return contains(listed.out, "\"usedBy\": \"" + name);
      },
      kComesBack, 1);
  if (isSpent) states.visit("token spent");
  return isSpent || !alone ? "" : "the worker has not joined: " + textOf(listed);
}

std::string Operations::renew(const Operation& it, bool alone) {
  auto file = nodes.cluster.folder() + "/talosconfig-" + std::to_string(it.number);
  std::ofstream(file) << harness::slurp(nodes.cluster.talosconfig());
  auto run = [&](std::vector<std::string> arguments) {
    std::vector<std::string> line = {harness::talosctlPath(),
                                     "--talosconfig",
                                     file,
                                     "-e",
                                     nodes.cluster.endpoint(nodes.address(it.node)),
                                     "-n",
                                     nodes.address(it.node)};
    line.insert(line.end(), arguments.begin(), arguments.end());
    return harness::run(line, 120);
  };
  auto renewed = run({"config", "renew"});
  if (renewed.status != 0) return must(alone, renewed);
  return must(alone, run({"version"}));
}

std::string Operations::rotate(const Operation& it) {
  std::string planes;
  for (unsigned i = 0; i < kControlPlanes; ++i) planes += (i > 0 ? "," : "") + nodes.address(i);
  auto output = nodes.cluster.folder() + "/rotated-" + std::to_string(it.number);
  auto line = rotationOf(planes, nodes.address(kWorker), output);
  line.emplace_back("--dry-run=false");
  auto before = harness::slurp(nodes.cluster.talosconfig());
  auto rotated = nodes.cluster.talosctl(line, kCommand);
  if (auto problem = must(true, rotated); !problem.empty()) return problem;
  bool isSame = harness::slurp(nodes.cluster.talosconfig()) == before;
  return isSame ? "the context has the old CA after a rotation: " + textOf(rotated) : "";
}

}  // namespace talos::day
