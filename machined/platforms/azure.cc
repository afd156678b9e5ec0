// Microsoft Azure: "Azure Instance Metadata Service" of its documentation; the DVD and the report
// as "Bring your own agent: provisioning" there describes them.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

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

bool isAzure(const Firmware& firmware) {
  return firmware.chassisTag == "7783-7084-3265-9085-8269-3286-77";
}

}  // namespace

const Platform kAzure{.name = "azure"_kj,
                      .title = "Microsoft Azure"_kj,
                      .consoles = "ttyS0,115200n8"_kj,
                      .headers = kAzureHeaders,
                      .facts = kAzureFacts,
                      .matches = isAzure};

}  // namespace talos::platforms
