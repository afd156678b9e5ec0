// Google Compute Engine: "About VM metadata" and "Predefined metadata keys" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr kj::StringPtr kGcpMetadata[] = {"169.254.169.254"_kj, "fd20:ce::254"_kj};

constexpr Header kGcpHeaders[] = {{"Metadata-Flavor"_kj, "Google"_kj}};

constexpr Request kGcpFacts[] = {
    {"project"_kj, "/computeMetadata/v1/project/project-id"_kj, true},
    {"name"_kj, "/computeMetadata/v1/instance/name"_kj, true},
    {"id"_kj, "/computeMetadata/v1/instance/id"_kj, true},
    {"hostname"_kj, "/computeMetadata/v1/instance/hostname"_kj},
    {"zone"_kj, "/computeMetadata/v1/instance/zone"_kj, true},
    {"machine-type"_kj, "/computeMetadata/v1/instance/machine-type"_kj},
    {"preemptible"_kj, "/computeMetadata/v1/instance/scheduling/preemptible"_kj},
    {"interfaces"_kj,
     "/computeMetadata/v1/instance/network-interfaces/?recursive=true&alt=json"_kj}};

bool isGcp(const Firmware& firmware) {
  return firmware.product == "Google Compute Engine" || firmware.serial.startsWith("GoogleCloud-");
}

}  // namespace

const Platform kGcp{
    .name = "gcp"_kj,
    .title = "Google Compute Engine"_kj,
    .consoles = "ttyS0"_kj,
    .metadata = kGcpMetadata,
    .headers = kGcpHeaders,
    .config = {"user-data"_kj, "/computeMetadata/v1/instance/attributes/user-data"_kj},
    .facts = kGcpFacts,
    .matches = isGcp};

}  // namespace talos::platforms
