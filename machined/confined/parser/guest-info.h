// The machine config and the metadata in the guest information of VMware: variables of the virtual
// machine, else properties of its OVF environment (guestinfo.ovfenv). Both are base64.
#pragma once

#include <kj/array.h>

#include "machined/confined/parser/guest-rpc.h"

namespace talos::parse {

// The first that is there of the variables guestinfo.talos.config and guestinfo.userdata, then the
// properties talos.config and userdata: decoded and unpacked. Empty: there is none. The caller's to
// zeroize(). InvalidArgument naming what is not base64, or not text.
kj::Array<char> guestConfig(GuestRpc& rpc);

// guestinfo.metadata, else the property metadata: the same way.
kj::Array<char> guestMetadata(GuestRpc& rpc);

// Takes the machine config out of all of them, so that processes of this machine cannot read it,
// and returns the names of those that had one. A variable with user data for another system stays;
// guestinfo.ovfenv is replaced by one with the other properties alone. Unavailable when the
// hypervisor does not change one, or gives the old value afterwards.
kj::Vector<kj::String> clearGuestConfig(GuestRpc& rpc);

}  // namespace talos::parse
