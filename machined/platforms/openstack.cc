// OpenStack: "Metadata" of the Nova documentation; network_data.json by its schema there.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kOpenstackFacts[] = {
    {"meta_data"_kj, "/openstack/latest/meta_data.json"_kj},
    {"network_data"_kj, "/openstack/latest/network_data.json"_kj},
    {"public-ipv4"_kj, "/latest/meta-data/public-ipv4"_kj},
    {"instance-type"_kj, "/latest/meta-data/instance-type"_kj}};

constexpr kj::StringPtr kChassisTags[] = {"OpenStack Nova"_kj,   "OpenStack Compute"_kj,
                                          "OpenTelekomCloud"_kj, "SAP CCloud VM"_kj,
                                          "HUAWEICLOUD"_kj,      "Samsung Cloud Platform"_kj};

bool isTag(kj::StringPtr text) {
  for (auto each : kChassisTags) {
    if (each == text) return true;
  }
  return false;
}

bool isOpenstack(const Firmware& firmware) {
  return firmware.product == "OpenStack Nova" || firmware.product == "OpenStack Compute" ||
         isTag(firmware.chassisTag);
}

}  // namespace

const Platform kOpenstack{.name = "openstack"_kj,
                          .title = "OpenStack"_kj,
                          .consoles = "tty1 ttyS0"_kj,
                          .config = {"user_data"_kj, "/openstack/latest/user_data"_kj},
                          .facts = kOpenstackFacts,
                          .volume = "config-2"_kj,
                          .matches = isOpenstack};

}  // namespace talos::platforms
