#include "tests/day/plan/day-text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace talos::day {
namespace {

constexpr unsigned kMostMinutes = 60 * 24 * 7, kMostMs = 600'000, kMostNumber = 100'000;

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (auto& item : items) text += (text.empty() ? "" : ",") + item;
  return text;
}

std::string nodesOf(const std::vector<unsigned>& nodes) {
  std::vector<std::string> names;
  for (auto node : nodes) names.emplace_back(kNodeNames.at(node));
  return joined(names);
}

class Reader {
 public:
  Reader(const std::string& file, const KnownWorkloads& known) : file(file), known(known) {}

  Day read(const std::string& text) {
    std::istringstream in(text);
    for (std::string each; std::getline(in, each);) {
      ++line;
      fields.clear();
      std::istringstream words(each.substr(0, each.find('#')));
      for (std::string word; words >> word;) fields.push_back(word);
      if (!fields.empty()) readLine();
    }
    if (!hasDay) refuse("the text has no line \"day\"; begin with: day seed=1 minutes=60");
    return std::move(day);
  }

 private:
  const std::string& file;
  const KnownWorkloads& known;
  unsigned line = 0;
  std::vector<std::string> fields;  // of the line
  Day day;
  bool hasDay = false;
  std::set<unsigned> numbers;

  [[noreturn]] void refuse(const std::string& problem) const {
    throw std::runtime_error(file + ":" + std::to_string(line) + ": " + problem);
  }

  void readLine() {
    auto& first = fields[0];
    if (first == "day") return readDay();
    if (!hasDay) refuse("the first line must be \"day seed=… minutes=…\"");
    if (first == "workload") return readWorkload();
    if (first == "weight") return readWeight();
    if (first == "round") return readRound();
    if (first == "bout") return readBout();
    if (first == "op") return readOperation();
    refuse("\"" + first +
           "\" is not a line of a day; use day, workload, weight, round, bout or op");
  }

  uint64_t number(const std::string& name, const std::string& text, uint64_t most) const {
    uint64_t value = 0;
    auto end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc() || rest != end || value > most) {
      refuse(name + " is \"" + text + "\"; it must be a number from 0 to " + std::to_string(most));
    }
    return value;
  }

  // Returns the values of the fields from `from` on, which are KEY=VALUE with one of these keys.
  std::map<std::string, std::string> values(size_t from, const std::set<std::string>& keys) const {
    std::map<std::string, std::string> found;
    std::vector<std::string> all(keys.begin(), keys.end());
    for (size_t i = from; i < fields.size(); ++i) {
      auto equals = fields[i].find('=');
      auto key = fields[i].substr(0, equals);
      if (equals == std::string::npos || !keys.contains(key)) {
        refuse("\"" + fields[i] + "\" is not valid here; use " +
               (all.empty() ? "no field" : "KEY=VALUE with " + joined(all)));
      }
      if (!found.emplace(key, fields[i].substr(equals + 1)).second) refuse(key + " is duplicate");
    }
    return found;
  }

  void readDay() {
    if (hasDay) refuse("a second line \"day\"");
    hasDay = true;
    auto found = values(1, {"seed", "minutes"});
    for (auto& [key, text] : found) {
      if (key == "seed") day.seed = number(key, text, std::numeric_limits<uint64_t>::max());
      if (key == "minutes") day.minutes = unsigned(number(key, text, kMostMinutes));
    }
  }

  void readWorkload() {
    if (fields.size() < 2 || !known.contains(fields[1])) {
      std::vector<std::string> names;
      for (auto& [name, settings] : known) names.push_back(name);
      refuse("unknown workload; use one of " + joined(names));
    }
    Workload workload{.name = fields[1]};
    for (auto& [key, text] : values(2, known.at(fields[1]))) {
      workload.settings[key] = unsigned(number(key, text, std::numeric_limits<unsigned>::max()));
    }
    auto same = [&](auto& each) { return each.name == workload.name; };
    if (std::ranges::any_of(day.workloads, same)) refuse(workload.name + " is duplicate");
    day.workloads.push_back(std::move(workload));
  }

  const KindRow& kind(const std::string& name) const {
    if (auto row = rowNamed(name)) return *row;
    std::vector<std::string> names;
    for (auto& row : allKinds()) names.emplace_back(row.name);
    refuse("unknown operation \"" + name + "\"; use one of " + joined(names));
  }

  void readWeight() {
    if (fields.size() != 3) refuse("write: weight OPERATION NUMBER");
    day.weights[kind(fields[1]).name] = unsigned(number("the weight", fields[2], 1000));
  }

  void readRound() {
    values(1, {});
    day.rounds.emplace_back();
  }

  unsigned node(const std::string& name) const {
    auto at = std::ranges::find(kNodeNames, name);
    if (at == kNodeNames.end()) {
      refuse("unknown node \"" + name + "\"; use one of " +
             joined({kNodeNames.begin(), kNodeNames.end()}));
    }
    return unsigned(at - kNodeNames.begin());
  }

  void readBout() {
    if (day.rounds.empty()) refuse("a bout before the first round");
    Bout bout;
    for (auto& [key, text] : values(1, {"quorum"})) {
      std::istringstream names(text);
      for (std::string name; std::getline(names, name, ',');) {
        if (node(name) == kWorker) refuse("a worker is no part of a quorum");
        bout.quorum.push_back(node(name));
      }
      if (bout.quorum.size() * 2 <= kControlPlanes) refuse("the nodes are no quorum; name two");
    }
    day.rounds.back().push_back(std::move(bout));
  }

  void readOperation() {
    if (day.rounds.empty() || day.rounds.back().empty()) refuse("an operation before its bout");
    if (fields.size() < 3) refuse("write: op NUMBER OPERATION at=NODE …");
    Operation it{.number = unsigned(number("the number", fields[1], kMostNumber)),
                 .kind = kind(fields[2]).kind};
    auto found = values(3, {"at", "peer", "program", "after", "lasts", "salt"});
    if (!found.contains("at")) refuse("at=NODE is missing");
    for (auto& [key, text] : found) {
      if (key == "at") it.node = node(text);
      if (key == "peer") it.peer = node(text);
      if (key == "program") it.program = text;
      if (key == "after") it.after = unsigned(number(key, text, kMostMs));
      if (key == "lasts") it.lasts = unsigned(number(key, text, kMostMs));
      if (key == "salt") it.salt = unsigned(number(key, text, 1'000'000));
    }
    add(std::move(it));
  }

  void add(Operation it) {
    auto& row = rowOf(it.kind);
    bool fits = (row.on & (it.node == kWorker ? kOnWorker : kOnControlPlanes)) != 0;
    if (!fits) refuse(std::string(row.name) + " cannot be done at " + kNodeNames.at(it.node));
    if (!numbers.insert(it.number).second) {
      refuse("operation " + std::to_string(it.number) + " is duplicate");
    }
    auto programs = programsOn(it.node);
    bool isProgram = std::ranges::find(programs, it.program) != programs.end();
    if ((row.scope == Scope::kProgram) != !it.program.empty() ||
        (!it.program.empty() && !isProgram)) {
      refuse("program must be one of " + joined({programs.begin(), programs.end()}) +
             " for kill and stop, and missing for others");
    }
    bool needsPeer = it.kind == Kind::kCutLink;
    if (needsPeer != it.peer.has_value() || it.peer == it.node) {
      refuse("peer must be another node for cut-link, and missing for others");
    }
    auto& bout = day.rounds.back().back().operations;
    for (auto& other : bout) {
      if (!agree(it, other)) {
        refuse("it cannot be done beside operation " + std::to_string(other.number));
      }
    }
    bout.push_back(std::move(it));
  }
};

}  // namespace

std::string textOf(const Operation& it) {
  std::ostringstream out;
  out << "op " << it.number << " " << rowOf(it.kind).name << " at=" << kNodeNames.at(it.node);
  if (it.peer) out << " peer=" << kNodeNames.at(*it.peer);
  if (!it.program.empty()) out << " program=" << it.program;
  out << " after=" << it.after << " lasts=" << it.lasts << " salt=" << it.salt;
  return out.str();
}

std::string textOf(const Day& day) {
  std::ostringstream out;
  out << "day seed=" << day.seed << " minutes=" << day.minutes << "\n";
  for (auto& workload : day.workloads) {
    out << "workload " << workload.name;
    for (auto& [key, value] : workload.settings) out << " " << key << "=" << value;
    out << "\n";
  }
  for (auto& [name, weight] : day.weights) out << "weight " << name << " " << weight << "\n";
  for (auto& round : day.rounds) {
    out << "round\n";
    for (auto& bout : round) {
      out << "bout" << (bout.quorum.empty() ? "" : " quorum=" + nodesOf(bout.quorum)) << "\n";
      for (auto& it : bout.operations) out << textOf(it) << "\n";
    }
  }
  return out.str();
}

Day parseDay(const std::string& text, const std::string& file, const KnownWorkloads& known) {
  return Reader(file, known).read(text);
}

}  // namespace talos::day
