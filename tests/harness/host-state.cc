#include "tests/harness/host-state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tests/harness/process.h"

namespace talos {
namespace {

namespace fs = std::filesystem;

// A time service of the host slews the clock by less; a node that set the clock would move it by
// more.
constexpr double kJump = 0.5;

// Counters, and files that act when they are read.
constexpr const char* kVolatile[] = {
    "fs/aio-nr",          "fs/quota/syncs",
    "fs/dentry-state",    "fs/file-nr",
    "fs/inode-nr",        "fs/inode-state",
    "kernel/ns_last_pid", "kernel/perf_event_max_sample_rate",
    "kernel/pty/nr",      "kernel/random/entropy_avail",
    "kernel/random/uuid", "kernel/tainted",
    "vm/stat_refresh",    "net/netfilter/nf_conntrack_count",
};
// Parts of the paths of a network interface's parameters; other tests' interfaces come and go.
constexpr const char* kByInterface[] = {"/conf/", "/neigh/"};

constexpr const char* kLimits[] = {
    "memory.max", "memory.high",  "memory.limit_in_bytes", "memory.swappiness", "cpu.max",
    "cpu.weight", "cpu.shares",   "cpu.cfs_quota_us",      "cpuset.cpus",       "cpuset.mems",
    "pids.max",   "devices.list", "release_agent"};

// Returns the present content; many parameters can only be written, or belong to an object that has
// gone.
std::string contentOf(const fs::path& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  char text[16384];
  ssize_t size = ::read(fd, text, sizeof(text));
  close(fd);
  return std::string(text, size < 0 ? 0 : static_cast<size_t>(size));
}

bool isCompared(const std::string& name) {
  for (auto v : kVolatile) {
    if (name == v) return false;
  }
  for (auto part : kByInterface) {
    if (name.find(part) == std::string::npos) continue;
    return name.find("/all/") != std::string::npos || name.find("/default/") != std::string::npos ||
           name.find("/lo/") != std::string::npos;
  }
  return true;
}

// Skips folders that cannot be read or have disappeared.
template <typename Visit>
void eachFile(const fs::path& folder, Visit&& visit) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    auto status = it->symlink_status(gone);
    if (fs::is_directory(status)) eachFile(it->path(), visit);
    if (fs::is_regular_file(status)) visit(it->path());
  }
}

void compare(const char* what, const std::map<std::string, std::string>& before,
             const std::map<std::string, std::string>& after, std::vector<std::string>& found) {
  for (auto& [path, text] : before) {
    auto it = after.find(path);
    if (it == after.end() || it->second == text) continue;
    found.push_back(std::string(what) + " " + path + ": was " + text + "is " + it->second);
  }
}

// Reports the lines of the first list that are missing in the second.
void missing(const char* what, const std::vector<std::string>& from,
             const std::vector<std::string>& in, std::vector<std::string>& found) {
  for (auto& each : from) {
    if (std::ranges::find(in, each) == in.end()) found.push_back(std::string(what) + ": " + each);
  }
}

// Returns them without the counters that the kernel prints beside them.
std::vector<std::string> addressesAndRoutes() {
  std::vector<std::string> found;
  // IPv4: addresses and routes, the local ones too.
  for (auto& line : harness::lines(harness::slurp("/proc/net/fib_trie"))) {
    auto text = line.substr(std::min(line.size(), line.find_first_not_of(' ')));
    if (text.starts_with("|--")) found.push_back("ipv4 " + text.substr(4));
    if (text.starts_with("/") && !found.empty()) found.back() += text;
  }
  for (auto& line : harness::lines(harness::slurp("/proc/net/route"))) {
    std::istringstream fields(line);
    std::string link, to, gateway;
    fields >> link >> to >> gateway;
    found.push_back("route " + to + " by " + gateway + " " + link);
  }
  for (auto& line : harness::lines(harness::slurp("/proc/net/if_inet6"))) {
    std::istringstream fields(line);
    std::string address, index, length, scope, flags, link;
    fields >> address >> index >> length >> scope >> flags >> link;
    found.push_back("ipv6 " + address + "/" + length + " " + link);
  }
  for (auto& line : harness::lines(harness::slurp("/proc/net/ipv6_route"))) {
    std::istringstream fields(line);
    std::string to, length, from, fromLength, gateway, metric, uses, counter, flags, link;
    fields >> to >> length >> from >> fromLength >> gateway >> metric >> uses >> counter >> flags >>
        link;
    found.push_back("route " + to + "/" + length + " by " + gateway + " " + link);
  }
  // Link-local and multicast addresses and routes come and go with links, and are not the host's
  // own.
  std::erase_if(found, [](auto& line) {
    return line.find(" fe80") != std::string::npos || line.find(" ff0") != std::string::npos;
  });
  std::ranges::sort(found);
  return found;
}

}  // namespace

HostState HostState::now() {
  HostState state;
  const std::string sys = "/proc/sys/";
  eachFile(sys, [&](const fs::path& path) {
    auto name = path.string().substr(sys.size());
    if (isCompared(name)) state.parameters[name] = contentOf(path);
  });
  eachFile("/sys/fs/cgroup", [&](const fs::path& path) {
    auto name = path.filename().string();
    if (std::find(std::begin(kLimits), std::end(kLimits), name) != std::end(kLimits)) {
      state.limits[path] = contentOf(path);
    }
  });
  state.network = addressesAndRoutes();
  state.mounts = harness::lines(harness::slurp("/proc/self/mountinfo"));
  for (auto& line : harness::lines(harness::slurp("/proc/modules"))) {
    state.modules.push_back(line.substr(0, line.find(' ')));
  }
  struct timespec real, boot;
  clock_gettime(CLOCK_REALTIME, &real);
  clock_gettime(CLOCK_BOOTTIME, &boot);
  state.clockMinusUptime = static_cast<double>(real.tv_sec - boot.tv_sec) +
                           static_cast<double>(real.tv_nsec - boot.tv_nsec) / 1e9;
  struct timex clock = {};
  adjtimex(&clock);
  state.tick = clock.tick;
  return state;
}

std::vector<std::string> differences(const HostState& before, const HostState& after) {
  std::vector<std::string> found;
  compare("parameter", before.parameters, after.parameters, found);
  compare("limit", before.limits, after.limits, found);
  missing("address or route that is gone", before.network, after.network, found);
  missing("address or route that is new", after.network, before.network, found);
  missing("mount that is gone or changed", before.mounts, after.mounts, found);
  missing("mount that is new or changed", after.mounts, before.mounts, found);
  missing("module that is gone", before.modules, after.modules, found);
  missing("module that is new", after.modules, before.modules, found);
  if (std::abs(before.clockMinusUptime - after.clockMinusUptime) > kJump) {
    found.push_back("the clock was set");
  }
  if (before.tick != after.tick) found.push_back("the clock runs at another speed");
  return found;
}

HostUnchanged::~HostUnchanged() {
  auto after = HostState::now();
  after.modules = before.modules;
  after.limits = before.limits;  // clusters of other tests set their own
  after.tick = before.tick;      // who keeps the host's clock changes it, too
  for (auto& what : differences(before, after)) ADD_FAILURE() << "the host has changed: " << what;
}

}  // namespace talos
