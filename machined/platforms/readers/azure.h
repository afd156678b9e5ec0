// The particulars of Azure: the machine config is on a disc, and a virtual machine has to report
// that it is there, or its creation fails after some 20 minutes. After "Create generalized
// images without a provisioning agent" of its documentation.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::platforms {

// CustomData of ovf-env.xml, as it stands there: base64; empty: there is none. The caller's to
// zeroize(). InvalidArgument when the file is no XML.
kj::Array<char> azureCustomData(kj::ArrayPtr<const char> ovfEnvironment);

// The body of the report that answers a goal state: this machine is ready. InvalidArgument when the
// goal state is no XML, or does not name what the report is about.
kj::String azureReadyReport(kj::ArrayPtr<const char> goalState);

}  // namespace talos::platforms
