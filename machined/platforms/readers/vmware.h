// Details of VMware: everything is in variables of the virtual machine (guestinfo) or in its OVF
// environment, in base64, and nothing needs the network.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::platforms {

// Properties of an OVF environment, in the order of the search.
constexpr kj::StringPtr kConfigProperties[] = {"talos.config"_kj, "userdata"_kj};
constexpr kj::StringPtr kMetadataProperties[] = {"metadata"_kj};

// Returns the value of a property of an OVF environment ("OVF Environment" of DMTF's DSP0243);
// empty if missing. `what` is for the message: "guestinfo.ovfenv". The caller must zeroize() it.
// InvalidArgument.
kj::Array<char> ovfProperty(kj::StringPtr key, kj::StringPtr what,
                            kj::ArrayPtr<const char> environment);

// Returns an OVF environment with all properties but these, and nothing else. Returns nullptr if
// none of these has a value. InvalidArgument.
kj::Maybe<kj::String> ovfWithout(kj::ArrayPtr<const kj::StringPtr> keys, kj::StringPtr what,
                                 kj::ArrayPtr<const char> environment);

}  // namespace talos::platforms
