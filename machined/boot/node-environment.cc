#include "machined/boot/node-environment.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"
#include "machined/config/controllers/machine-inventory.h"
#include "machined/disk/encryption/node-id-passphrase.h"
#include "machined/process1/init/init-protocol.h"
#include "machined/process1/init/inside-container.h"
#include "machined/system/etc-files.h"

namespace talos::machined {

kj::String smbiosUuid() {
  return firstLine(tryReadFile("/sys/class/dmi/id/product_uuid").orDefault(kj::String()));
}

namespace {

// Returns the address of the first link with a device: network cards have a device, virtual links
// do not.
kj::String firstHardwareAddress() {
  constexpr kj::StringPtr kLinks = "/sys/class/net"_kj;
  auto names = namesIn(kLinks);
  std::sort(names.begin(), names.end());
  for (auto& name : names) {
    auto link = kj::str(kLinks, "/", name);
    if (access(kj::str(link, "/device").cStr(), F_OK) != 0) continue;
    auto address = firstLine(tryReadFile(kj::str(link, "/address")).orDefault(kj::String()));
    if (address.size() > 0) return address;
  }
  return kj::String();
}

// Returns the host name without its domain.
kj::String currentHostname() {
  auto name = kernelHostname();
  return kj::heapString(name.slice(0, name.findFirst('.').orDefault(name.size())));
}

}  // namespace

UrlVariables urlVariables() {
  return {.uuid = smbiosUuid(),
          .serial = kj::str(readFirmware("/sys").serial),
          .mac = firstHardwareAddress(),
          .hostname = currentHostname()};
}

kj::String systemUuid() {
  constexpr size_t kMostTable = 1u << 20;
  auto table = tryReadFile("/sys/firmware/dmi/tables/DMI", kMostTable).orDefault(kj::String());
  KJ_IF_MAYBE (uuid, systemUuidIn(table.asBytes())) return uuidText(*uuid);
  return kj::String();
}

kj::String thisBootId() {
  return firstLine(readFile("/proc/sys/kernel/random/boot_id"));
}

config::Mode configMode(Mode mode) {
  switch (mode) {
    case Mode::kCloud:
      return config::Mode::kCloud;
    case Mode::kContainer:
      return config::Mode::kContainer;
    default:
      return config::Mode::kMetal;
  }
}

kj::String platformOf(const KernelArguments& arguments) {
  if (auto* fromEnvironment = getenv("PLATFORM")) return kj::str(fromEnvironment);
  return kj::str(arguments.first("talos.platform").orDefault("metal"));
}

KernelArguments kernelArguments() {
  auto* platform = getenv("PLATFORM");
  if (platform == nullptr || modeOfPlatform(platform) != Mode::kContainer) {
    return KernelArguments::ofThisKernel();
  }
  auto* name = getenv("HOSTNAME");
  bool named = name != nullptr && *name != 0 && kj::StringPtr(name) != "(none)";
  auto own = process1::hasOwnCommandLine() ? readFile("/proc/cmdline") : kj::String();
  return KernelArguments(named ? kj::str(own, " talos.hostname=", name) : kj::mv(own));
}

UserData userDataOf(Process1& process1) {
  auto file = process1.takeHeld(process1::kUserData);
  return [file = kj::mv(file)]() -> kj::Maybe<kj::Array<char>> {
    KJ_IF_MAYBE (fd, file) {
      struct stat status;
      KJ_SYSCALL(fstat(*fd, &status));
      auto text = kj::heapArray<char>(status.st_size);
      ssize_t size;
      KJ_SYSCALL(size = pread(*fd, text.begin(), text.size(), 0));
      KJ_REQUIRE(size == status.st_size, "USERDATA was cut");
      return kj::mv(text);
    }
    return nullptr;
  };
}

void applyHostname(kj::StringPtr hostname, kj::StringPtr domainname) {
  KJ_SYSCALL(sethostname(hostname.begin(), hostname.size()), hostname);
  KJ_SYSCALL(setdomainname(domainname.begin(), domainname.size()), domainname);
  writeEtcFile("", "hostname", kj::str(hostname, "\n"));
}

kj::StringPtr anyAddress() {
  struct stat there;
  return stat("/proc/net/if_inet6", &there) == 0 ? "::"_kj : "0.0.0.0"_kj;
}

}  // namespace talos::machined
