#include "tests/day/workloads.h"

#include <kj/debug.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "tests/cluster/etcd-nodes.h"
#include "tests/day/oracles/growth-oracle.h"
#include "tests/day/oracles/register-oracle.h"
#include "tests/day/oracles/state-oracles.h"

namespace talos::day {
namespace {

using harness::contains;
using harness::eventually;
using harness::slurp;

constexpr double kStep = 0.5;         // s between two looks
constexpr double kBetweenLooks = 15;  // s, at the problems of a new cluster
constexpr unsigned kLooks = 4;        // at least, at these

unsigned settingOf(const Workload& workload, const char* name, unsigned usual) {
  auto it = workload.settings.find(name);
  return it == workload.settings.end() ? usual : it->second;
}

std::vector<unsigned> allNodes() {
  return {0, 1, 2, kWorker};
}

// --- registers

class Registers : public WorkloadRun {
 public:
  Registers(const Workload& workload, DayContext& context)
      : context(context), keys(settingOf(workload, "keys", 6)) {}
  ~Registers() noexcept(false) override { context.clients = nullptr; }

  void start() override {
    clients = std::make_unique<RegisterClients>(
        context.nodes.members(), [this] { enter(context.nodes.clientPlace); }, keys, context.seed,
        RegisterClients::Pace());
    context.clients = clients.get();
  }
  std::string check(double, bool isEndOfRound) override {
    // Answered before the keys are read, so each of them must exist.
    auto answered = clients->answered();
    auto all = clients->totals().once;
    RegisterClients::Present present;
    bool isRead = false;
    for (unsigned node = 0; node < kControlPlanes && !isRead; ++node) {
      isRead = kj::runCatchingExceptions([&] { present = clients->present(node); }) == nullptr;
    }
    if (!isRead) return "no member of etcd lists the keys";
    if (auto problem = lossProblem(answered, present.keys); !problem.empty()) return problem;
    if (present.count < all) {
      return std::to_string(all) + " writes of keys were answered, and " +
             std::to_string(present.count) + " keys exist";
    }
    auto problem = registerProblem(clients->history());
    if (problem.empty() && isEndOfRound) clients->forget();
    return problem;
  }
  std::string summary() const override {
    auto totals = clients->totals();
    return std::to_string(totals.calls) + " calls of registers, " + std::to_string(totals.once) +
           " keys written once";
  }

 private:
  DayContext& context;
  unsigned keys;
  std::unique_ptr<RegisterClients> clients;
};

// --- the shared address

class Address : public WorkloadRun {
 public:
  explicit Address(DayContext& context) : nodes(context.nodes) {}

  std::string check(double, bool) override {
    AddressLooks looks{.asked = nodes.client->asked,
                       .twice = nodes.client->twice,
                       .overlaps = nodes.watch.overlaps,
                       .firstOverlap = nodes.watch.firstOverlap(),
                       .claims = {}};
    for (auto& claim : nodes.client->takeClaims()) {
      int who = nodes.ownerOf(claim.mac);
      looks.claims.push_back({who < 0 ? "" : kNodeNames.at(unsigned(who)), nodes.isRight(claim)});
    }
    return addressProblem(looks);
  }
  std::string summary() const override {
    return std::to_string(nodes.client->asked.load()) + " questions for the shared address, " +
           std::to_string(nodes.client->answered.load()) + " answered, " +
           std::to_string(nodes.watch.looks.load()) + " looks at the kernels";
  }

 private:
  DayCluster& nodes;
};

// --- recovery

class Recovery : public WorkloadRun {
 public:
  Recovery(const Workload& workload, DayContext& context)
      : context(context), nodes(context.nodes), within(settingOf(workload, "within", 300)) {}

  std::string setup() override {
    if (auto problem = converge({}); !problem.empty()) return problem;
    // A cluster without Kubernetes has problems for the whole day; they show after a while.
    unsigned looks = 0;
    bool isSteady = eventually(
        [&] {
          auto now = problems();
          bool isSame = remaining.problem(now).empty();
          remaining.setUsual(now);
          return ++looks >= kLooks && isSame;
        },
        within, kBetweenLooks);
    isSet = true;
    return isSteady ? "" : "status and diagnose of a new cluster do not become steady";
  }

  std::string converge(const std::vector<unsigned>& quorum) override {
    auto before = answers();
    auto answered = nodes.client->answered.load();
    std::string lacks;
    bool isWell = eventually(
        [&] {
          lacks = quorum.empty() ? lackOfAll() : "";
          if (lacks.empty()) lacks = lackOfQuorum(quorum, before, answered);
          return lacks.empty();
        },
        within, kStep);
    if (!isWell) return lacks;
    if (!quorum.empty() || !isSet) return "";
    bool isSilent = eventually(
        [&] {
          lacks = remaining.problem(problems());
          return lacks.empty();
        },
        within, 2);
    return isSilent ? "" : "status and diagnose still show: " + lacks;
  }

  std::string check(double, bool) override { return ""; }

 private:
  DayContext& context;
  DayCluster& nodes;
  unsigned within;  // s
  Remaining remaining;
  bool isSet = false;

  std::vector<unsigned> answers() const {
    std::vector<unsigned> counts;
    for (unsigned i = 0; i < kControlPlanes && context.clients != nullptr; ++i) {
      counts.push_back(context.clients->answers(i));
    }
    return counts;
  }

  // The quorum answers clients of etcd at each of its nodes, and one of them has the address.
  std::string lackOfQuorum(const std::vector<unsigned>& quorum, const std::vector<unsigned>& before,
                           unsigned answered) const {
    auto now = answers();
    for (unsigned i = 0; i < now.size(); ++i) {
      bool counts = quorum.empty() || std::ranges::find(quorum, i) != quorum.end();
      if (counts && now[i] == before[i]) {
        return std::string("etcd of ") + kNodeNames.at(i) + " answers no client";
      }
    }
    if (nodes.client->answered <= answered) return "no node answers for the shared address";
    return "";
  }

  std::string lackOfAll() const {
    for (auto node : allNodes()) {
      auto stage = nodes.shown(node, {"get", "machinestatus"});
      if (!contains(stage, "running")) return nodes.nodeName(node) + " does not run: " + stage;
      auto services = nodes.shown(node, {"services"});
      if (!harness::allServicesUp(services)) return "not all services are up: " + services;
      if (node == kWorker) continue;
      auto members = nodes.shown(node, {"etcd", "members"});
      if (votersIn(members) != kControlPlanes) return members;
    }
    int holder = nodes.watch.onlyHolder();
    if (holder < 0 || nodes.settledBy(unsigned(holder)) < 0) {
      return "the shared address is not settled";
    }
    return "";
  }

  // The problems that `status` and `diagnose` print. A change or an upgrade that went back is no
  // problem: it is what a node does with a bad config or image.
  std::vector<std::string> problems() const {
    std::vector<std::string> found;
    static const std::regex list("\"problems\": *\\[([^\\]]*)\\]"),
        text("\"((?:[^\"\\\\]|\\\\.)*)\"");
    for (auto node : allNodes()) {
      auto shown = nodes.shown(node, {"status", "-o", "json"});
      std::smatch lists;
      if (!std::regex_search(shown, lists, list)) continue;
      auto items = lists[1].str();
      for (std::sregex_iterator it(items.begin(), items.end(), text), end; it != end; ++it) {
        if (!contains((*it)[1].str(), "went back")) {
          found.push_back(nodes.address(node) + ": " + (*it)[1].str());
        }
      }
    }
    addFindings(nodes.cluster.talosctl({"diagnose", "-o", "json"}, 120).out, found);
    std::ranges::sort(found);
    return found;
  }

  // Without an image of the kubelet, findings about names, images and Kubernetes come and go.
  static void addFindings(const std::string& diagnosis, std::vector<std::string>& found) {
    static const std::set<std::string> judged = {"machine", "link",  "address",    "route",
                                                 "time",    "trust", "containerd", "etcd"};
    static const std::regex field("\"(layer|summary)\": *\"((?:[^\"\\\\]|\\\\.)*)\"");
    std::string layer;
    for (std::sregex_iterator it(diagnosis.begin(), diagnosis.end(), field), end; it != end; ++it) {
      auto value = (*it)[2].str();
      if ((*it)[1] == "layer") {
        layer = value;
      } else if (judged.contains(layer) && !contains(value, "the newest upgrade has failed")) {
        found.push_back(value);
      }
    }
  }
};

// --- growth

class Growth : public WorkloadRun {
 public:
  Growth(const Workload& workload, DayContext& context)
      : nodes(context.nodes),
        oracle({.interval = double(settingOf(workload, "interval", 3600)),
                .descriptors = settingOf(workload, "descriptors", 16),
                .memory = settingOf(workload, "memory", 8192)}) {}

  std::string check(double at, bool) override {
    for (auto node : allNodes()) {
      auto own = programsOn(node);
      for (std::string name : own) {
        if (name != "etcd") add(node, name, nodes.program(node, name), at);
      }
      add(node, "init", nodes.cluster.process(nodes.nodeName(node)), at);
    }
    return oracle.problem();
  }
  std::string summary() const override {
    return std::to_string(oracle.compared()) + " programs lived through two whole intervals";
  }

 private:
  DayCluster& nodes;
  GrowthOracle oracle;

  void add(unsigned node, const std::string& name, pid_t pid, double at) {
    auto folder = "/proc/" + std::to_string(pid);
    std::error_code gone;
    unsigned descriptors = 0;
    for (auto& each : std::filesystem::directory_iterator(folder + "/fd", gone)) {
      descriptors += each.path().empty() ? 0 : 1;
    }
    std::smatch match;
    auto status = slurp(folder + "/status");
    static const std::regex memory("RssAnon:\\s+([0-9]+) kB");
    if (gone || !std::regex_search(status, match, memory)) return;
    oracle.add({.node = kNodeNames.at(node),
                .program = name,
                .pid = pid,
                .at = at,
                .descriptors = descriptors,
                .memory = unsigned(std::stoul(match[1].str()))});
  }
};

// --- secrets

class Secrets : public WorkloadRun {
 public:
  explicit Secrets(DayContext& context) : context(context), nodes(context.nodes) {}

  // The logs take long to read, so they are searched once a round.
  std::string check(double, bool isEndOfRound) override {
    if (!isEndOfRound) return "";
    collect();
    if (context.secrets.known() == 0) return "the cluster's files have no secrets";
    std::string found;
    auto search = [&](const std::string& text, const std::string& log) {
      bytes += text.size();
      auto problem = context.secrets.problem(text, log);
      if (found.empty()) found = problem;
    };
    for (auto& file : filesOf(".log")) search(slurp(file), file.filename());
    static const std::regex row("\n\\S+ +([a-z0-9-]+) ");
    for (auto node : allNodes()) {
      auto services = nodes.shown(node, {"services"});
      for (std::sregex_iterator it(services.begin(), services.end(), row), end; it != end; ++it) {
        auto name = (*it)[1].str();
        search(nodes.shown(node, {"logs", name}), name + " of " + kNodeNames.at(node));
      }
      for (auto name : {"machined", "audit", "controller-runtime"}) {
        search(nodes.shown(node, {"logs", name}), std::string(name) + " of " + kNodeNames.at(node));
      }
      search(nodes.shown(node, {"events", "--tail", "-1", "--once"}),
             std::string("events of ") + kNodeNames.at(node));
    }
    return found;
  }
  std::string summary() const override {
    return std::to_string(context.secrets.known()) + " secrets, " + std::to_string(bytes >> 10) +
           " KiB of logs searched";
  }

 private:
  DayContext& context;
  DayCluster& nodes;
  size_t bytes = 0;

  std::vector<std::filesystem::path> filesOf(const std::string& extension) const {
    std::vector<std::filesystem::path> found;
    for (auto& each : std::filesystem::directory_iterator(nodes.cluster.stateFolder())) {
      if (each.path().extension() == extension) found.push_back(each.path());
    }
    return found;
  }
  // A rotation changes the configs, and each config that the nodes have now counts as well.
  void collect() {
    for (auto& file : filesOf(".yaml")) {
      context.secrets.add(secretsOf(slurp(file), file.filename()));
    }
    context.secrets.add(secretsOf(slurp(nodes.cluster.talosconfig()), "talosconfig"));
    for (auto node : allNodes()) {
      context.secrets.add(
          secretsOf(nodes.config(node), std::string("config of ") + kNodeNames.at(node)));
    }
  }
};

}  // namespace

const KnownWorkloads& knownWorkloads() {
  static const KnownWorkloads known = {{"registers", {"keys"}},
                                       {"address", {}},
                                       {"recovery", {"within"}},
                                       {"growth", {"interval", "descriptors", "memory"}},
                                       {"secrets", {}}};
  return known;
}

std::vector<std::unique_ptr<WorkloadRun>> makeWorkloads(const Day& day, DayContext& context) {
  std::vector<std::unique_ptr<WorkloadRun>> all;
  for (auto& each : day.workloads) {
    if (each.name == "registers") all.push_back(std::make_unique<Registers>(each, context));
    if (each.name == "address") all.push_back(std::make_unique<Address>(context));
    if (each.name == "recovery") all.push_back(std::make_unique<Recovery>(each, context));
    if (each.name == "growth") all.push_back(std::make_unique<Growth>(each, context));
    if (each.name == "secrets") all.push_back(std::make_unique<Secrets>(context));
  }
  return all;
}

}  // namespace talos::day
