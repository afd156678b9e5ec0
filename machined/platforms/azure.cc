// Microsoft Azure: "Azure Instance Metadata Service" of its documentation; the disc and the report
// as "Create generalized images without a provisioning agent" there describes them.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

// The second is the wire server, with the secrets of extensions.
constexpr kj::StringPtr kAzureMetadata[] = {"169.254.169.254"_kj, "168.63.129.16"_kj};

constexpr Header kAzureHeaders[] = {{"Metadata"_kj, "true"_kj}};

// Azure Stack Hub has the older version alone.
constexpr Request kAzureFacts[] = {
    {.name = "compute"_kj,
     .target = "/metadata/instance/compute?api-version=2021-12-13&format=json"_kj,
     .required = true,
     .olderTarget = "/metadata/instance/compute?api-version=2019-06-01&format=json"_kj},
    {.name = "interfaces"_kj,
     .target = "/metadata/instance/network/interface?api-version=2021-12-13&format=json"_kj,
     .olderTarget = "/metadata/instance/network/interface?api-version=2019-06-01&format=json"_kj},
    {.name = "loadbalancer"_kj,
     .target = "/metadata/loadbalancer?api-version=2021-12-13&format=json"_kj,
     .olderTarget = "/metadata/loadbalancer?api-version=2019-06-01&format=json"_kj}};

constexpr Header kReportHeaders[] = {{"x-ms-agent-name"_kj, "WALinuxAgent"_kj},
                                     {"x-ms-version"_kj, "2015-04-05"_kj},
                                     {"Content-Type"_kj, "text/xml;charset=utf-8"_kj}};
constexpr ReadyReport kAzureReport = {.server = "http://168.63.129.16"_kj,
                                      .goalState = "/machine/?comp=goalstate"_kj,
                                      .health = "/machine/?comp=health"_kj,
                                      .headers = kReportHeaders};

bool isAzure(const Firmware& firmware) {
  return firmware.chassisTag == "7783-7084-3265-9085-8269-3286-77";
}

}  // namespace

const Platform kAzure{.name = "azure"_kj,
                      .title = "Microsoft Azure"_kj,
                      .consoles = "ttyS0,115200n8"_kj,
                      .metadata = kAzureMetadata,
                      .headers = kAzureHeaders,
                      .place = Place::kDisc,
                      .config = {"ovf-env"_kj, "ovf-env.xml"_kj},
                      .encoding = Encoding::kOvfEnvironment,
                      .facts = kAzureFacts,
                      .report = &kAzureReport,
                      .dhcpMtu = false,
                      .matches = isAzure};

}  // namespace talos::platforms
