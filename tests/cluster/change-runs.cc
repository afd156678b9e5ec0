#include "tests/cluster/change-runs.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <regex>
#include <thread>

namespace talos::changes {

using harness::Background;
using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::Result;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kComesUp = 300, kReachable = 600, kDutiesAgain = 300;  // s
// A service that was started again is no duty until it has run for half a minute.
constexpr double kNoDuty = 35;
constexpr const char* kConfigPath = "/system/state/config.yaml";
constexpr const char *kIsOnTrial = "the config is on trial for at most ",
                     *kIsConfirmed = "the config is confirmed: ",
                     *kIsBack = "the previous config is back: ",
                     *kWentBack = "the last change of the config went back: ";

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void sleepFor(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string inOneLine(std::string text, size_t most = 400) {
  for (auto& c : text) c = c == '\n' ? ' ' : c;
  return text.size() <= most ? text : text.substr(0, most) + "…";
}

}  // namespace

std::string setting(const char* name, const char* usual) {
  const char* given = getenv(name);
  return given == nullptr ? usual : given;
}

unsigned countOf(const char* name, const char* usual) {
  return static_cast<unsigned>(std::stoul(setting(name, usual)));
}

std::vector<Task> drawTasks(uint64_t seed, unsigned nodes, unsigned harmful, unsigned good,
                            unsigned cut) {
  auto only = setting("CHANGES_ONLY", "");
  std::vector<Task> tasks;
  auto add = [&](bool isHarmful, unsigned wanted, unsigned cuts) {
    auto fitting = kindsOn(nodes, isHarmful);
    std::erase_if(fitting, [&](auto kind) { return !contains(kind->name, only); });
    Draw(seed, isHarmful ? 0 : 1).shuffle(fitting);
    if (fitting.empty()) return;
    auto task = [&](unsigned i, std::optional<unsigned> at) {
      tasks.push_back({(i + 1) * 10 + isHarmful, isHarmful, fitting[i % fitting.size()], at});
    };
    for (unsigned i = 0; i < wanted; ++i) task(i, {});
    for (unsigned i = 0; i < cuts * kCutsOfOne; ++i) task(i / kCutsOfOne, i % kCutsOfOne);
  };
  add(true, harmful, cut);
  add(false, good, 0);
  Draw(seed, 2).shuffle(tasks);
  return tasks;
}

// --- the list

std::optional<Task> Work::next(unsigned nodes) {
  std::lock_guard lock(mutex);
  for (auto it = tasks.begin(); it != tasks.end(); ++it) {
    if ((it->kind->on & nodes) == 0) continue;
    auto task = *it;
    tasks.erase(it);
    return task;
  }
  return {};
}

void Work::report(const Task& task, const std::string& node, const Way& way,
                  const std::string& patch, const Verdict& verdict) {
  std::lock_guard lock(mutex);
  auto name = task.kind->name + std::string(task.cut ? ", power cuts" : "");
  auto& row = rows[{!task.harmful, name}];
  ++row.all;
  ++row.outcomes[verdict.isWrong() ? "WRONG" : verdict.outcome];
  row.slowest = std::max(row.slowest, verdict.seconds);
  wrong += verdict.isWrong();
  std::cerr << "change " << task.number << " seed " << seed << " " << node << " ["
            << task.kind->name << "] " << way.mode << (way.wait ? " --wait" : "")
            << (task.cut ? " cut " + std::to_string(*task.cut) : "") << ": " << verdict.outcome
            << ", " << static_cast<int>(verdict.seconds) << " s, " << inOneLine(verdict.reason)
            << " | " << inOneLine(patch, verdict.isWrong() ? 2000 : 160) << std::endl;
}

unsigned Work::conclude() {
  std::lock_guard lock(mutex);
  for (auto& [key, row] : rows) {
    std::cerr << (key.first ? "good     " : "harmful  ") << key.second << ": " << row.all << ";";
    for (auto& [outcome, times] : row.outcomes) std::cerr << " " << outcome << " " << times;
    std::cerr << "; slowest " << static_cast<int>(row.slowest) << " s\n";
  }
  std::cerr << tasks.size() << " not made, wrong " << wrong << std::endl;
  return wrong;
}

size_t Work::left() {
  std::lock_guard lock(mutex);
  return tasks.size();
}

// --- a power cut

// Cuts the power of a node in a container after a write to its STATE, or at once, and switches it
// on again.
class PowerCut {
 public:
  PowerCut(const Cluster& cluster, std::string node, unsigned write, double delay)
      : cluster(cluster), node(std::move(node)), write(write), delay(delay) {
    auto folder = cluster.stateFolder() + "/" + this->node + "/state";
    watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    inotify_add_watch(watch, folder.c_str(), IN_MOVED_TO | IN_DELETE);
    thread = std::thread([this] { run(); });
  }
  ~PowerCut() {
    over = true;
    thread.join();
    close(watch);
  }
  PowerCut(const PowerCut&) = delete;
  bool isDone() const { return done; }

 private:
  const Cluster& cluster;
  std::string node;
  unsigned write;
  double delay;
  int watch;
  std::atomic<bool> over = false, done = false;
  std::thread thread;

  unsigned writesNow() const {
    alignas(inotify_event) char buffer[4096];
    unsigned found = 0;
    for (ssize_t size; (size = read(watch, buffer, sizeof buffer)) > 0;) {
      for (char* at = buffer; at < buffer + size;) {
        auto event = reinterpret_cast<inotify_event*>(at);
        std::string name = event->len > 0 ? event->name : "";
        found += name == "config.yaml" || name == "config-trial";
        at += sizeof *event + event->len;
      }
    }
    return found;
  }
  void run() {
    for (unsigned found = 0; found < write;) {
      pollfd wanted{watch, POLLIN, 0};
      poll(&wanted, 1, 50);
      found += writesNow();
      if (over) return;
    }
    sleepFor(delay);
    if (over) return;
    kill(cluster.process(node), SIGKILL);
    eventually([&] { return cluster.talosctl({"cluster", "node", "start", node}, 60).status == 0; },
               60, 0.3);
    done = true;
  }
};

// --- a node

Result Victim::call(std::vector<std::string> arguments, double deadline) const {
  arguments.insert(arguments.begin(), {"-e", endpoint, "-n", place.address, "--timeout", "10s"});
  return cluster.talosctl(std::move(arguments), deadline);
}

std::string Victim::config() const {
  return call({"read", kConfigPath}).out;
}

// Returns the config that runs, which is not that on the disk while one is staged.
std::string Victim::running() const {
  auto text = call({"get", "mc", "-o", "yaml"}).out;
  auto at = text.find("\nspec:");
  return at == std::string::npos ? std::string() : text.substr(at);
}

std::string Victim::since() const {
  auto text = console();
  return text.substr(std::min(seen, text.size()));
}

std::string Victim::firstFile() const {
  return cluster.folder() + "/" + name + "-first.yaml";
}

// Returns what the node would have to do again after a change.
std::string Victim::duties() const {
  auto err = call({"patch", "mc", "--dry-run", "--mode=no-reboot", "-p",
                   "machine: {nodeLabels: {example.com/settled: \"1\"}}"});
  static const std::regex line("what it did before: ([^\n]*)");
  std::smatch match;
  auto text = err.out + err.err;
  return std::regex_search(text, match, line) ? match[1].str() : std::string();
}

bool Victim::settles() const {
  return eventually([&] { return duties() == usual; }, kDutiesAgain, 2);
}

bool Victim::isOnTrial() const {
  auto now = status();
  return now.status != 0 || contains(now.out, "is on trial") ||
         contains(now.out, "the previous config comes back");
}

// Returns true if the node has booted, and no config is on trial for so long.
bool Victim::isQuiet(double seconds) const {
  auto begin = Clock::now();
  while (secondsSince(begin) < seconds) {
    if (isOnTrial() || contains(since(), kIsOnTrial)) return false;
    sleepFor(1);
  }
  return cluster.booted(place.address);
}

bool Victim::begin() {
  bool isUp =
      eventually([&] { return cluster.booted(place.address) && !config().empty(); }, kComesUp);
  if (!isUp) return false;
  sleepFor(kNoDuty);
  first = config();
  usual = duties();
  std::ofstream(firstFile()) << first;
  std::cerr << name << " does: " << usual << std::endl;
  return !first.empty() && !usual.empty();
}

// Applies the first config without a trial, on a node that may not answer.
bool Victim::restore() {
  for (int i = 0; i < 3; ++i) {
    auto result = call({"apply-config", "-f", firstFile(), "--mode=auto", "--no-trial"}, 60);
    auto isBack = [&] { return cluster.booted(place.address) && config() == first; };
    if (result.status == 0 && eventually(isBack, kComesUp, 1)) return settles();
    cluster.talosctl({"cluster", "node", "kill", name}, 60);
    cluster.talosctl({"cluster", "node", "start", name}, 60);
    if (!eventually([&] { return !config().empty(); }, 120, 1)) return false;
  }
  return false;
}

bool Victim::make(const Task& task) {
  Draw draw(work.seed, task.number);
  auto change = task.kind->draw(draw, place);
  auto way = drawWay(draw, change);
  if (change.onFirst && config() != first) restore();
  Verdict verdict;
  seen = console().size();
  if (change.patch.empty() && config() == first) {
    verdict = {"no change", ""};
  } else if (settles()) {
    verdict = judged(task, change, way, draw);
  } else {
    verdict = {"WRONG: the node does less than at first", duties() + ", not " + usual};
  }
  work.report(task, name, way, change.patch, verdict);
  if (!verdict.isWrong()) return true;
  std::cerr << status().out << "\n--- console of " << name << "\n" << since() << "---" << std::endl;
  return restore();
}

std::vector<std::string> Victim::command(const Change& change, const Way& way) const {
  std::vector<std::string> words = {"-e", endpoint, "-n", place.address};
  if (change.patch.empty()) {
    words.insert(words.end(), {"apply-config", "-f", firstFile()});
  } else {
    words.insert(words.end(), {"patch", "mc", "-p", change.patch});
  }
  words.push_back("--mode=" + way.mode);
  words.push_back("--trial-timeout=" + setting("CHANGES_TRIAL", "1m"));
  if (way.wait && way.mode != "staged") words.push_back("--wait");
  return words;
}

Verdict Victim::judged(const Task& task, const Change& change, const Way& way, Draw& draw) {
  before = config();
  ranBefore = running();
  seen = console().size();
  auto begin = Clock::now();
  std::optional<PowerCut> cut;
  if (task.cut) {
    bool isBetween = *task.cut + 1 == kCutsOfOne;  // in the middle of the trial
    double delay = *task.cut == 0 ? draw.number(0, 300) / 1000.0 : isBetween ? 15 : 0;
    cut.emplace(cluster, name, isBetween ? 2 : *task.cut, delay);
  }
  Background apply(cluster.command(command(change, way)));
  auto verdict = ends(task, apply, cut ? &*cut : nullptr, way.mode == "staged");
  verdict.seconds = secondsSince(begin);
  if (verdict.reason.empty() && verdict.isWrong()) verdict.reason = apply.err();
  if (verdict.outcome == "stays" && !task.harmful) checkEffect(change, verdict);
  if (verdict.outcome == "went back") checkReason(task, change, verdict);
  return verdict;
}

// Waits for the end of the change.
Verdict Victim::ends(const Task& task, Background& apply, const PowerCut* cut, bool isStaged) {
  auto begin = Clock::now();
  int ended = -1;
  while (secondsSince(begin) < kReachable) {
    if (ended < 0) ended = apply.finish(0.5);
    auto text = since();
    if (contains(text, kIsConfirmed)) return afterTrial(task, "stays");
    if (contains(text, kIsBack)) return afterTrial(task, "went back");
    bool isCut = cut != nullptr && cut->isDone(), isOnTrialNow = contains(text, kIsOnTrial);
    if (ended > 0 && !isOnTrialNow && !isCut && isQuiet(5) && config() == before) {
      return {task.harmful ? "refused" : "WRONG: a good change was refused", apply.err()};
    }
    if (isCut && !isOnTrialNow && isQuiet(10)) return notOnTrial();
    if (ended == 0 && contains(apply.err(), "nothing changed")) return {"no change", ""};
    if (ended == 0 && isStaged) {
      call({"reboot"}, 120);
      isStaged = false;
    }
    sleepFor(0.5);
  }
  return {"WRONG: no end within 10 minutes", apply.err()};
}

// After a power cut: the change was applied and confirmed before it, or not at all.
Verdict Victim::notOnTrial() const {
  if (config() == before && running() == ranBefore) return {"not applied", ""};
  return {"WRONG: applied, and not on trial", ""};
}

// The node is reachable, and has the config that the end of the trial says.
Verdict Victim::afterTrial(const Task& task, const std::string& outcome) const {
  bool isBack = outcome == "went back";
  bool answers = eventually(
      [&] {
        auto now = config();
        return !now.empty() && (now == before) == isBack && cluster.booted(place.address) &&
               (running() == ranBefore) == isBack && !isOnTrial();
      },
      kReachable, 0.5);
  if (!answers) return {"WRONG: " + outcome + ", but does not answer with that config", ""};
  if (task.harmful && !isBack) return {"WRONG: a harmful change stays", ""};
  if (!task.harmful && isBack) return {"WRONG: a good change went back", status().out};
  return {outcome, ""};
}

void Victim::checkReason(const Task& task, const Change& change, Verdict& verdict) const {
  auto now = status().out;
  auto at = now.find(kWentBack);
  if (at == std::string::npos) {
    verdict.outcome = "WRONG: no reason in the status";
    verdict.reason = now;
    return;
  }
  verdict.reason = now.substr(at + std::string(kWentBack).size());
  bool isNamed = std::any_of(change.reasons.begin(), change.reasons.end(),
                             [&](auto& reason) { return contains(verdict.reason, reason); });
  if (!isNamed) verdict.outcome = "WRONG: another reason";
  // Events of before a power cut may be lost.
  auto events = call({"events", "--tail", "-1", "--once"}).out;
  if (!task.cut && !contains(events, kIsBack)) verdict.outcome = "WRONG: no reason in the events";
}

void Victim::checkEffect(const Change& change, Verdict& verdict) const {
  if (change.patch.empty() && config() != first) verdict.outcome = "WRONG: not the first config";
  if (change.shows.empty()) return;
  std::string shown;
  if (eventually([&] { return contains(shown = call(change.shows).out, change.shown); }, 20, 1)) {
    return;
  }
  verdict.outcome = "WRONG: not in effect";
  verdict.reason = change.shown + " is not in: " + inOneLine(shown, 1000);
}

void workOn(Work& work, std::vector<Victim>& victims, unsigned nodes) {
  for (auto& victim : victims) {
    if (!victim.begin()) {
      ADD_FAILURE() << "a node does not come up";
      return;
    }
  }
  for (size_t i = 0;; ++i) {
    auto task = work.next(nodes);
    if (!task) return;
    if (!victims[i % victims.size()].make(*task)) {
      ADD_FAILURE() << "a node cannot be used any more";
      return;
    }
  }
}

}  // namespace talos::changes
