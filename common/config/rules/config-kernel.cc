// machine.watchdog, sysctls, kernel and sysfs, and udev, which is refused. A kept config may have
// values of the last three that earlier releases ignored.

#include <set>
#include <string>

#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

void checkSysctls(Report& report, capnp::List<StringPair>::Reader sysctls) {
  for (auto sysctl : sysctls) {
    auto name = sysctl.getKey();
    bool group = name.findFirst('.') == nullptr && name.findFirst('/') == nullptr &&
                 sysctlPath(kj::str(name, "/x")) != nullptr;
    if (!group && sysctlPath(name) == nullptr) {
      report.error(keyPath("machine.sysctls", name),
                   kj::str("\"", name, "\" is not a valid name of a kernel parameter"),
                   "for example net.ipv4.ip_forward");
    } else if (group) {
      report.error(keyPath("machine.sysctls", name),
                   kj::str("\"", name, "\" is a group of kernel parameters"),
                   "use the name of one, for example net.ipv4.ip_forward");
    }
  }
}

bool isModuleLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool isModuleName(kj::StringPtr name) {
  for (char c : name) {
    if (!isModuleLetter(c) && c != '-') return false;
  }
  return true;
}

// Returns true for name=value or a flag, as the kernel splits its command line
// (Documentation/admin-guide/kernel-parameters.rst): blanks are allowed only between double quotes.
bool isModuleParameter(kj::StringPtr text) {
  size_t name = 0;
  while (name < text.size() &&
         (isModuleLetter(text[name]) || text[name] == '-' || text[name] == '.')) {
    ++name;
  }
  if (name == 0 || !isModuleLetter(text[0])) return false;
  if (name == text.size()) return true;
  if (text[name] != '=') return false;
  bool quoted = false;
  for (char c : text.slice(name)) {
    if (c == '"') quoted = !quoted;
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f || (c == ' ' && !quoted)) return false;
  }
  return !quoted;
}

void checkModules(Report& report, capnp::List<KernelModule>::Reader modules) {
  std::set<std::string> names;
  size_t i = 0;
  for (auto module : modules) {
    auto path = kj::str("machine.kernel.modules[", i++, "]");
    auto place = kj::str(path, ".name");
    auto name = module.getName();
    if (name.size() == 0) {
      report.laterError(place, kj::str("the module has no name"));
    } else if (!isModuleName(name)) {
      report.laterError(place, kj::str("\"", name, "\" is not a valid name of a kernel module"),
                        "use letters, digits, - and _, for example nvme_tcp");
    } else {
      if (!names.insert(plainModuleName(name)).second) {
        report.laterError(place, kj::str("duplicate module: another one is called \"", name, "\""),
                          "put all parameters of a module into one entry");
      }
    }
    size_t j = 0;
    for (auto parameter : module.getParameters()) {
      place = kj::str(path, ".parameters[", j++, "]");
      if (isModuleParameter(parameter)) continue;
      report.laterError(place,
                        kj::str(jsonString(parameter), " is not a valid parameter of a module"),
                        "use name=value, with double quotes around a value that has blanks");
    }
  }
}

void checkSysfs(Report& report, capnp::List<StringPair>::Reader values) {
  for (auto value : values) {
    auto name = value.getKey();
    if (sysctlPath(name) != nullptr) continue;
    report.laterError(keyPath("machine.sysfs", name),
                      kj::str("\"", name, "\" is not a valid path of a file below /sys"),
                      "for example devices.system.cpu.cpu0.cpufreq.scaling_governor, or "
                      "class/net/eth0.100/mtu where names have dots");
  }
}

void checkUdev(Report& report, Udev::Reader udev) {
  constexpr auto kNone = "this system has no udev"_kj;
  constexpr auto kInstead =
      "use machine.network.interfaces[].deviceSelector to select links, "
      "machine.kernel.modules to load drivers and machine.sysfs to set attributes"_kj;
  if (udev.getRules().size() > 0) {
    report.laterError("machine.udev.rules", kj::str(kNone), kInstead);
  } else if (report.isRead("machine.udev")) {
    report.warn("machine.udev", kj::str(kNone), kInstead);
  }
}

constexpr kj::Duration kShortestWatchdog = 10 * kj::SECONDS, kLongestWatchdog = 18 * kj::HOURS;

void checkWatchdog(Report& report, Watchdog::Reader watchdog) {
  constexpr auto kPath = "machine.watchdog"_kj, kTimeout = "machine.watchdog.timeout"_kj;
  constexpr auto kHint = "use whole seconds from 10s to 18h, for example 1m"_kj;
  if (!report.isRead(kPath)) return;
  auto device = watchdog.getDevice();
  constexpr auto kPrefix = "/dev/watchdog"_kj;
  bool plain = device.startsWith(kPrefix) && device.size() > kPrefix.size();
  if (plain) {
    for (char c : device.slice(kPrefix.size())) plain = plain && c >= '0' && c <= '9';
  }
  if (device.size() == 0) {
    report.error(kPath, kj::str("there is no device"), "for example device: /dev/watchdog0");
  } else if (!plain) {
    report.error("machine.watchdog.device",
                 kj::str(jsonString(device), " is not a watchdog's device"),
                 "use /dev/watchdog0, or another number");
  }
  report.duration(kTimeout, watchdog.getTimeout(), kShortestWatchdog, "must be at least 10s",
                  kHint);
  KJ_IF_MAYBE (timeout, parseDuration(watchdog.getTimeout())) {
    if (*timeout > kLongestWatchdog)
      report.error(kTimeout, kj::str("must be at most 18h"), kHint);
    else if (*timeout % kj::SECONDS != 0 * kj::SECONDS && *timeout > kShortestWatchdog) {
      report.error(kTimeout, kj::str("not a whole number of seconds"), kHint);
    }
  }
}

}  // namespace

std::string plainModuleName(kj::StringPtr name) {
  std::string plain = name.cStr();
  for (auto& c : plain) {
    if (c == '-') c = '_';
  }
  return plain;
}

void checkKernel(Report& report, Machine::Reader machine) {
  checkSysctls(report, machine.getSysctls());
  checkModules(report, machine.getKernel().getModules());
  checkSysfs(report, machine.getSysfs());
  checkUdev(report, machine.getUdev());
  checkWatchdog(report, machine.getWatchdog());
}

}  // namespace talos::config
