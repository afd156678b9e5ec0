#include "networkd/control/network-host.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/map.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <optional>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "networkd/control/sysfs-card.h"

namespace talos::networkd {

namespace {

template <size_t size>
kj::String textOf(const char (&field)[size]) {
  return kj::heapString(field, strnlen(field, size));
}

// Returns "1af4:1000", if the bus is PCI and has the id.
kj::String pciIdOf(kj::StringPtr busPath) {
  if (busPath.size() == 0 || busPath.findFirst('/') != nullptr) return kj::String();
  kj::Vector<kj::String> parts;
  for (auto file : {"vendor"_kj, "device"_kj}) {
    KJ_IF_MAYBE (text, tryReadFile(kj::str("/sys/bus/pci/devices/", busPath, "/", file))) {
      constexpr size_t kDigits = 4;  // after 0x
      if (text->startsWith("0x") && text->size() >= kDigits + 2)
        parts.add(kj::str(text->slice(2, kDigits + 2)));
    }
  }
  return parts.size() == 2 ? kj::strArray(parts, ":") : kj::String();
}

// Returns nullptr if the link does not exist, or has no driver that answers.
kj::Maybe<Hardware> askDriver(kj::StringPtr name) {
  kj::AutoCloseFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  if (fd.get() < 0 || name.size() >= sizeof(request.ifr_name)) return nullptr;
  memcpy(request.ifr_name, name.begin(), name.size());
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (::ioctl(fd, SIOCETHTOOL, &request) < 0) return nullptr;
  Hardware result{textOf(info.driver), textOf(info.bus_info), nullptr};
  result.pciId = pciIdOf(result.busPath);
  return kj::mv(result);
}

class MachineHost final : public Host {
 public:
  MachineHost(kj::UnixEventPort& port, kj::StringPtr directory, bool predictable)
      : resolverPath(kj::str(directory, "/resolv.conf")),
        podResolverPath(kj::str(directory, "/", kPodResolverFile)),
        mtuPath(kj::str(directory, "/first-mtus")),
        portPath(kj::str(directory, "/tunnel-ports")),
        predictable(predictable) {
    // The folder stays open, because the sandbox's rule holds for this inode: if memory is short,
    // the kernel forgets the inode and makes another. A kernel without IPv6 has no such folder.
    int folder = ::open("/proc/sys/net/ipv6/conf", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) linkSettings = kj::AutoCloseFd(folder);
    // The kernel marks this file urgent when the name is set. If the file is unreadable, the name
    // is read only after other events.
    int raw = ::open("/proc/sys/kernel/hostname", O_RDONLY | O_CLOEXEC);
    if (raw < 0) {
      log::warn("cannot watch the host name; changes are noticed late",
                {{"error", strerror(errno)}});
      return;
    }
    fd = kj::AutoCloseFd(raw);
    observer.emplace(port, raw, kj::UnixEventPort::FdObserver::OBSERVE_URGENT);
  }

  kj::String hostname() override {
    utsname names;
    KJ_SYSCALL(uname(&names));
    return kj::str(names.nodename);
  }

  kj::Promise<void> hostnameChanged() override {
    if (!observer) return kj::NEVER_DONE;
    auto promise = observer->whenUrgentDataAvailable();
    // The kernel treats the last change as unseen until the file is read.
    char text[256];
    if (::pread(fd, text, sizeof(text), 0) < 0) return kj::NEVER_DONE;
    // The kernel marks the file for every name that is set, also in another container.
    return promise.then([this]() -> kj::Promise<void> {
      auto name = hostname();
      if (name == known) return hostnameChanged();
      known = kj::mv(name);
      return kj::READY_NOW;
    });
  }

  bool ipv6() override {
    int probe = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return errno != EAFNOSUPPORT;
    ::close(probe);
    return true;
  }

  void acceptRouterAdvertisements(kj::StringPtr link) override {
    if (linkSettings.get() < 0) return;
    auto file = kj::str(link, "/accept_ra");
    kj::AutoCloseFd setting(::openat(linkSettings, file.cStr(), O_RDWR | O_CLOEXEC));
    if (setting.get() < 0 && errno == ENOENT) return;  // The link is gone.
    char now = 0;
    bool good = setting.get() >= 0 && ::pread(setting, &now, 1, 0) == 1;
    if (good && now == '1') good = ::pwrite(setting, "2", 1, 0) == 1;
    if (good) return;
    log::warn("router advertisements have no effect on a link",
              {{"link", link}, {"error", strerror(errno)}});
  }

  void writeResolverFile(kj::StringPtr content) override { writeChanged(resolverPath, content); }
  void writePodResolverFile(kj::StringPtr content) override {
    writeChanged(podResolverPath, content);
  }

  kj::String readFirstMtus() override { return tryReadFile(mtuPath).orDefault(kj::String()); }
  void writeFirstMtus(kj::StringPtr content) override {
    writeFileAtomically(mtuPath, content, 0644);
  }
  kj::String readTunnelPorts() override { return tryReadFile(portPath).orDefault(kj::String()); }
  void writeTunnelPorts(kj::StringPtr content) override {
    writeFileAtomically(portPath, content, 0644);
  }

  // A driver does not change while its link exists, and indices are not reused.
  Hardware hardware(const netlink::Link& link) override {
    if (link.kind.size() > 0 || link.loopback()) return {};
    KJ_IF_MAYBE (known, hardwareByIndex.find(link.index)) return copy(*known);
    KJ_IF_MAYBE (asked, askDriver(link.name)) {
      auto result = copy(*asked);
      hardwareByIndex.insert(link.index, kj::mv(*asked));
      return result;
    }
    return {};
  }

  kj::Vector<kj::String> predictableNames(const netlink::Link& link) override {
    if (!predictable) return {};
    KJ_IF_MAYBE (card, readCard("/sys", link)) return networkd::predictableNames(*card);
    return {};
  }

 private:
  kj::String resolverPath, podResolverPath, mtuPath, portPath;
  bool predictable;
  kj::String known = hostname();  // reported last
  kj::HashMap<unsigned, Hardware> hardwareByIndex;
  kj::AutoCloseFd fd, linkSettings;
  std::optional<kj::UnixEventPort::FdObserver> observer;

  static void writeChanged(kj::StringPtr path, kj::StringPtr content) {
    KJ_IF_MAYBE (there, tryReadFile(path)) {
      if (*there == content) return;
    }
    writeFileAtomically(path, content, 0644);
  }
  static Hardware copy(const Hardware& other) {
    return {kj::str(other.driver), kj::str(other.busPath), kj::str(other.pciId)};
  }
};

}  // namespace

kj::Own<Host> openHost(kj::UnixEventPort& port, kj::StringPtr directory, bool predictableNames) {
  return kj::heap<MachineHost>(port, directory, predictableNames);
}

}  // namespace talos::networkd
