// The particulars of Azure: the machine config is on a DVD, and a virtual machine has to report
// that it is there, or its creation fails after some 20 minutes.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::platforms {

// The machine config in ovf-env.xml, decoded; empty: there is none. InvalidArgument for a file that
// is not as it must be.
kj::Array<char> azureCustomData(kj::ArrayPtr<const char> ovfEnvironment);

constexpr kj::StringPtr kWireServer = "http://168.63.129.16"_kj;
constexpr kj::StringPtr kGoalStateTarget = "/machine/?comp=goalstate"_kj,
                        kHealthTarget = "/machine/?comp=health"_kj;
// The body of the report that answers a goal state: Ready. InvalidArgument.
kj::String azureReadyReport(kj::ArrayPtr<const char> goalState);

}  // namespace talos::platforms
