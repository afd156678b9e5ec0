// VMware: guestinfo variables by open-vm-tools' names; metadata as "VMware" of cloud-init's
// documentation has it. The disc is the transport "iso" of DMTF's DSP0243 ("OVF Environment").
#include "machined/platforms/platform.h"

namespace talos::platforms {
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
