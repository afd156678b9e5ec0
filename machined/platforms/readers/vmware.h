// The particulars of VMware: everything is in variables of the virtual machine (guestinfo), in
// base64, and nothing needs the network.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::platforms {

// The value of a property of guestinfo.ovfenv ("OVF Environment" of DMTF's DSP0243); empty: it has
// none. The caller's to zeroize(). InvalidArgument.
kj::Array<char> ovfProperty(kj::StringPtr key, kj::ArrayPtr<const char> environment);

}  // namespace talos::platforms
