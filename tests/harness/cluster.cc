#include "tests/harness/cluster.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace talos::harness {
namespace {

// Returns 0 if the process has no parent, or has ended.
pid_t parentOf(pid_t pid) {
  auto stat = slurp("/proc/" + std::to_string(pid) + "/stat");
  auto nameEnds = stat.rfind(") ");
  pid_t parent = 0;
  char state;
  if (nameEnds != std::string::npos) {
    std::istringstream(stat.substr(nameEnds + 2)) >> state >> parent;
  }
  return parent;
}

std::string programOf(pid_t pid) {
  auto path = std::string(slurp("/proc/" + std::to_string(pid) + "/cmdline").c_str());
  return path.substr(path.rfind('/') + 1);
}

void empty(const std::string& folder) {
  for (auto& entry : std::filesystem::directory_iterator(folder)) {
    std::filesystem::remove_all(entry.path());
  }
}

std::string tail(const std::string& text, size_t count) {
  return text.size() <= count ? text : "…" + text.substr(text.size() - count);
}

}  // namespace

std::string talosctlPath() {
  const char* path = getenv("TALOSCTL");
  if (path == nullptr) KJ_FAIL_REQUIRE("TALOSCTL names the talosctl under test; ctest sets it");
  return path;
}

Cluster::Cluster(const std::string& name, const std::vector<std::string>& createFlags,
                 double deadlineSeconds)
    : name(name) {
  char folder[] = "/tmp/talos-test-XXXXXX";
  KJ_REQUIRE(mkdtemp(folder) != nullptr);
  scratch = folder;
  std::vector<std::string> arguments = {"cluster", "create"};
  if (std::find(createFlags.begin(), createFlags.end(), "--provisioner") == createFlags.end()) {
    arguments.insert(arguments.end(), {"--provisioner", "qemu"});
  }
  arguments.insert(arguments.end(), createFlags.begin(), createFlags.end());
  // Tests that do not need etcd are faster without it.
  bool hasBootstrap = std::any_of(createFlags.begin(), createFlags.end(),
                                  [](auto& flag) { return flag.starts_with("--bootstrap"); });
  if (!hasBootstrap) arguments.push_back("--bootstrap=false");
  // Most have no registry, either. Nothing is merged into the user's kubeconfig.
  bool waits = std::any_of(createFlags.begin(), createFlags.end(),
                           [](auto& flag) { return flag.starts_with("--wait-kubernetes"); });
  if (!waits) arguments.push_back("--wait-kubernetes=false");
  created = talosctl(arguments, deadlineSeconds);
  if (created.status != 0) {
    std::string consoles;
    for (auto& entry : std::filesystem::recursive_directory_iterator(scratch)) {
      if (entry.path().extension() == ".log") {
        consoles +=
            "\n--- " + entry.path().filename().string() + "\n" + tail(slurp(entry.path()), 3000);
      }
    }
    auto output = created.out + created.err + consoles;
    talosctl({"cluster", "destroy"}, 60);
    std::filesystem::remove_all(scratch);
    KJ_FAIL_REQUIRE("the cluster did not come up", output.c_str());
  }
}

Cluster::~Cluster() {
  talosctl({"cluster", "destroy"}, 60);
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
}

std::vector<std::string> Cluster::command(std::vector<std::string> arguments) const {
  std::vector<std::string> command = {talosctlPath(), "--talosconfig", talosconfig()};
  bool cluster = !arguments.empty() && arguments[0] == "cluster";
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (cluster) {
    for (auto& argument :
         {std::string("--name"), name, std::string("--state"), scratch + "/clusters"}) {
      command.push_back(argument);
    }
  }
  return command;
}

Result Cluster::talosctl(std::vector<std::string> arguments, double deadlineSeconds) const {
  return run(command(std::move(arguments)), deadlineSeconds);
}

std::string Cluster::ok(std::vector<std::string> arguments, double deadlineSeconds) const {
  auto result = talosctl(arguments, deadlineSeconds);
  std::string shown;
  for (auto& argument : arguments) shown += argument + " ";
  EXPECT_EQ(result.status, 0) << "talosctl " << shown << "\n" << result.out << result.err;
  return result.out;
}

bool Cluster::booted(const std::string& node) const {
  return contains(talosctl({"-n", node, "--timeout", "10s", "logs", "machined"}, 30).out,
                  "sequence boot: done");
}

std::string Cluster::console(const std::string& node) const {
  return slurp(stateFolder() + "/" + node + ".log");
}

std::string Cluster::endpoint(const std::string& node) const {
  auto text = slurp(stateFolder() + "/state.yaml");
  std::string dots;
  for (char c : node) dots += c == '.' ? std::string("\\.") : std::string(1, c);
  std::smatch match;
  KJ_REQUIRE(
      std::regex_search(text, match,
                        std::regex("address: \"?" + dots + "\"?\\s+endpoint: \"?(127[.0-9]+)")),
      "the cluster has no such node", node.c_str());
  return match[1].str();
}

pid_t Cluster::supervisor() const {
  for (int pid : processesWith(stateFolder())) {
    if (contains(slurp("/proc/" + std::to_string(pid) + "/cmdline"), "cluster-run")) return pid;
  }
  KJ_FAIL_REQUIRE("the cluster has no supervisor", name.c_str());
}

// Reads the pid from the last line in the supervisor's log.
pid_t Cluster::process(const std::string& nodeName) const {
  auto log = slurp(stateFolder() + "/supervisor.log");
  std::regex line("message=\"node started\" node=" + nodeName + " pid=([0-9]+)");
  pid_t pid = 0;
  for (std::sregex_iterator it(log.begin(), log.end(), line), end; it != end; ++it) {
    pid = std::stoi((*it)[1].str());
  }
  return pid;
}

// A descendant of the node's process 1, the topmost of this name: a program may start others of the
// same name.
pid_t Cluster::program(const std::string& nodeName, const std::string& program) const {
  auto process1 = process(nodeName);
  if (process1 <= 0) return 0;
  for (int pid : processesWith(program)) {
    if (programOf(pid) != program) continue;
    auto parent = parentOf(pid);
    bool first = programOf(parent) != program;
    while (parent > 1 && parent != process1) parent = parentOf(parent);
    if (parent == process1 && first) return pid;
  }
  return 0;
}

std::string Cluster::etcdLeader(const std::vector<std::string>& addresses) const {
  for (auto& address : addresses) {
    auto status =
        talosctl({"-e", endpoint(address), "-n", address, "--timeout", "3s", "etcd", "status"}, 10);
    // NODE MEMBER DB-SIZE IN-USE LEADER
    static const std::regex row("\n\\S+ +([0-9a-f]{8,16}) +.*? ([0-9a-f]{8,16}) ");
    std::smatch match;
    if (std::regex_search(status.out, match, row) && match[1] == match[2]) return address;
  }
  return {};
}

void Cluster::erase(const std::string& nodeName) const {
  empty(stateFolder() + "/" + nodeName + "/var");
}

void Cluster::eraseAll(const std::string& nodeName) const {
  erase(nodeName);
  empty(stateFolder() + "/" + nodeName + "/state");
}

void Cluster::setJoinToken(const std::string& nodeName, const std::string& token) const {
  auto file = stateFolder() + "/" + nodeName + ".yaml";
  auto text = slurp(file);
  const std::string key = " token: ";
  auto at = text.find(key, text.find("machine:"));
  KJ_REQUIRE(at != std::string::npos, "the config has no token", file.c_str());
  at += key.size();
  text.replace(at, text.find('\n', at) - at, token);
  std::ofstream(file) << text;
}

std::map<std::string, int> Cluster::pidsOfServices(const std::string& node) const {
  std::map<std::string, int> pids;
  auto text = talosctl({"-n", node, "services", "-o", "json"}).out;
  static const std::regex field("\"(id|pid)\": \"?([a-z0-9-]+)");
  std::string id;
  for (std::sregex_iterator it(text.begin(), text.end(), field), end; it != end; ++it) {
    if ((*it)[1] == "id") {
      id = (*it)[2];
    } else {
      pids[id] = std::stoi((*it)[2]);
    }
  }
  return pids;
}

std::map<std::string, int> Cluster::servicePids(const std::string& node) const {
  std::map<std::string, int> pids;
  auto table = talosctl({"-n", node, "processes"}).out;
  // NODE  PID  STATE  THREADS  CPU-TIME  VIRTMEM  RESMEM  COMMAND
  static const std::regex row(
      R"(^\S+\s+(\d+)\s+\S+\s+\d+\s+\S+\s+.*\s(\S*/usr/bin/(machined|apid|networkd|trustd|etcd-supervisor)|/sbin/init)\b)");
  for (auto& line : lines(table)) {
    std::smatch match;
    if (!std::regex_search(line, match, row)) continue;
    auto pid = std::stoi(match[1].str());
    if (match[3].matched) {
      pids[match[3].str()] = pid;
    } else if (pid == 1) {  // any other is a child of it that has not yet become its program
      pids["init"] = pid;
    }
  }
  return pids;
}

bool allServicesUp(const std::string& table) {
  static const std::regex up(
      R"(\sRunning\s+(OK|\?)\s|\setcd\s+Preparing\s.*\sWaiting for a cluster|\skubelet\s+(Preparing|Waiting)\s)");
  auto rows = lines(table);
  return rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(),
                                        [](auto& row) { return std::regex_search(row, up); });
}

std::string madeSymbols(const std::string& checkout) {
  auto folder = std::filesystem::path(talosctlPath()).parent_path();
  auto made = folder / "symbols";
  auto result = run({checkout + "/rootfs/symbols.sh", folder, made}, 120);
  if (result.status != 0) throw std::runtime_error(result.err);
  return made;
}

}  // namespace talos::harness
