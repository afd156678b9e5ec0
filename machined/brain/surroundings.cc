#include "machined/brain/surroundings.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/lines.h"
#include "machined/system/etc-files.h"

namespace talos::machined {

kj::String smbiosUuid() {
  return firstLine(tryReadFile("/sys/class/dmi/id/product_uuid").orDefault(kj::String()));
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

kj::Maybe<kj::StringPtr> userData() {
  if (auto* data = getenv("USERDATA")) return kj::StringPtr(data);
  return nullptr;
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
