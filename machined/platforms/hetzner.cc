// Hetzner Cloud: "Server metadata" of the Hetzner Cloud documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kHetznerFacts[] = {
    {"hostname"_kj, "/hetzner/v1/metadata/hostname"_kj},
    {"instance-id"_kj, "/hetzner/v1/metadata/instance-id"_kj, true},
    {"zone"_kj, "/hetzner/v1/metadata/availability-zone"_kj},
    {"public-ipv4"_kj, "/hetzner/v1/metadata/public-ipv4"_kj},
    {"network"_kj, "/hetzner/v1/metadata/network-config"_kj}};

bool isHetzner(const Firmware& firmware) {
  return firmware.vendor == "Hetzner";
}

}  // namespace

const Platform kHetzner{.name = "hcloud"_kj,
                        .title = "Hetzner Cloud"_kj,
                        .consoles = "tty1 ttyS0"_kj,
                        .config = {"userdata"_kj, "/hetzner/v1/userdata"_kj},
                        .encoding = Encoding::kMaybeBase64,
                        .facts = kHetznerFacts,
                        .matches = isHetzner};

}  // namespace talos::platforms
