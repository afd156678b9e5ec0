// Details of Azure: the machine config is on a disc, and a virtual machine must report that it is
// ready, or its creation fails after some 20 minutes. After "Create generalized images without a
// provisioning agent" of its documentation.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::platforms {

// Returns CustomData of ovf-env.xml, as it stands there: base64; empty if missing. The caller must
// zeroize() it. InvalidArgument if the file is not XML.
kj::Array<char> azureCustomData(kj::ArrayPtr<const char> ovfEnvironment);

// Returns the body of the report that answers a goal state: this machine is ready. InvalidArgument
// if the goal state is not XML, or does not name the subject of the report.
kj::String azureReadyReport(kj::ArrayPtr<const char> goalState);

}  // namespace talos::platforms
