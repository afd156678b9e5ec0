// Platforms of private clouds and hypervisors. Each quotes the public document of its software.
#include "machined/platforms/platform.h"

namespace talos::platforms {

// Apache CloudStack: "User-Data and Meta-Data" of its administrator's guide. The server is the
// virtual router, which is also the DNS server that knows the router's name.
namespace {

constexpr Request kCloudstackFacts[] = {
    {"hostname"_kj, "/latest/meta-data/local-hostname"_kj},
    {"offering"_kj, "/latest/meta-data/service-offering"_kj},
    {"instance-id"_kj, "/latest/meta-data/instance-id"_kj, true},
    {"public-ipv4"_kj, "/latest/meta-data/public-ipv4"_kj},
    {"zone"_kj, "/latest/meta-data/availability-zone"_kj}};

bool isCloudstack(const Firmware& firmware) {
  return firmware.product.startsWith("CloudStack");
}

}  // namespace

const Platform kCloudstack{.name = "cloudstack"_kj,
                           .title = "Apache CloudStack"_kj,
                           .consoles = "tty1 ttyS0"_kj,
                           .server = "http://data-server"_kj,
                           .metadata = nullptr,
                           .config = {"user-data"_kj, "/latest/user-data"_kj},
                           .facts = kCloudstackFacts,
                           .matches = isCloudstack};

// OpenNebula: "Contextualization" of its documentation: a volume labelled CONTEXT with a file
// context.sh of lines KEY='value'.
namespace {

constexpr Request kOpennebulaFacts[] = {{"context"_kj, "context.sh"_kj, true}};

}  // namespace

const Platform kOpennebula{.name = "opennebula"_kj,
                           .title = "OpenNebula"_kj,
                           .consoles = "tty1 ttyS0"_kj,
                           .server = ""_kj,
                           .metadata = nullptr,
                           .config = {"context"_kj, "context.sh"_kj},
                           .encoding = Encoding::kContext,
                           .facts = kOpennebulaFacts,
                           .volume = "context"_kj};

// OpenStack: "Metadata" of the Nova documentation; network_data.json by its schema there.
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

// VMware: guestinfo variables by open-vm-tools' names; metadata as "VMware" of cloud-init's
// documentation has it. The disc is the transport "iso" of DMTF's DSP0243 ("OVF Environment").
namespace {

bool isVmware(const Firmware& firmware) {
  return firmware.vendor == "VMware, Inc." || firmware.product.startsWith("VMware");
}

}  // namespace

const Platform kVmware{.name = "vmware"_kj,
                       .title = "VMware"_kj,
                       .consoles = "tty0 ttyS0"_kj,
                       .server = ""_kj,
                       .metadata = nullptr,
                       .place = Place::kGuestInfo,
                       .config = {kOvfFile, kOvfFile},
                       .encoding = Encoding::kOvfProperties,
                       .matches = isVmware};

}  // namespace talos::platforms
