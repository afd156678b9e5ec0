// NoCloud: "NoCloud" of cloud-init's documentation, with a volume labelled cidata or a web server
// that the firmware's serial number names. Proxmox VE gives its machines such volumes.
#include "machined/platforms/nocloud.h"
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kNocloudFacts[] = {{"meta-data"_kj, "meta-data"_kj},
                                     {"network-config"_kj, "network-config"_kj}};

bool isWeb(kj::StringPtr server) {
  return server.startsWith("http://") || server.startsWith("https://");
}

}  // namespace

NocloudSeed nocloudSeed(kj::StringPtr serial) {
  NocloudSeed seed;
  bool named = false;
  while (serial.size() > 0) {
    auto end = serial.findFirst(';').orDefault(serial.size());
    auto part = kj::heapString(serial.slice(0, end));
    serial = end < serial.size() ? serial.slice(end + 1) : kj::StringPtr();
    size_t equals = KJ_UNWRAP_OR(part.findFirst('='), continue);
    auto key = kj::heapString(part.slice(0, equals));
    auto value = part.slice(equals + 1);
    if (key == "ds") {
      named = value == "nocloud" || value == "nocloud-net";
    } else if (key == "s" || key == "seedfrom") {
      bool whole = value.endsWith("/") || !isWeb(value);
      seed.server = kj::str(value, whole ? "" : "/");
    } else if (key == "h" || key == "local-hostname") {
      seed.hostname = kj::str(value);
    } else if (key == "i" || key == "instance-id") {
      seed.instanceId = kj::str(value);
    }
  }
  return named ? kj::mv(seed) : NocloudSeed();
}

kj::Maybe<kj::String> serverProblem(const NocloudSeed& seed) {
  auto& server = seed.server;
  if (isWeb(server) || server.size() == 0) return nullptr;
  return kj::str("serial number: \"", server, "\" is not a server; use http:// or https://");
}

const Platform kNocloud{
    .name = "nocloud"_kj,
    .title = "NoCloud"_kj,
    .consoles = "tty1 ttyS0"_kj,
    .server = ""_kj,
    .metadata = nullptr,
    .config = {"user-data"_kj, "user-data"_kj},
    .facts = kNocloudFacts,
    .volume = "cidata"_kj,
    .matches = [](const Firmware& firmware) { return nocloudSeed(firmware.serial).named(); }};

}  // namespace talos::platforms
