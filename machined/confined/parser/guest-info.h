// Reads the machine config and the metadata from the guest information of VMware: from variables of
// the virtual machine, else from properties of its OVF environment (guestinfo.ovfenv). Both are
// base64.
#pragma once

#include <kj/array.h>

#include "machined/confined/parser/guest-rpc.h"

namespace talos::parse {

// Returns the machine config, decoded and unpacked, of the first that is set: the variables
// guestinfo.talos.config and guestinfo.userdata, then the properties talos.config and userdata.
// Empty if none is set. The caller has to zeroize() it. InvalidArgument naming a value that is not
// base64, or not text.
kj::Array<char> guestConfig(GuestRpc& rpc);

// Returns guestinfo.metadata, else the property metadata, in the same way.
kj::Array<char> guestMetadata(GuestRpc& rpc);

// Removes the machine config from all of them, so that processes of this machine cannot read it,
// and returns the names of those that had one. A variable with user data for another system stays;
// guestinfo.ovfenv is replaced by an environment with the other properties only. Unavailable when
// the hypervisor does not change a variable, or returns the old value afterwards.
kj::Vector<kj::String> clearGuestConfig(GuestRpc& rpc);

}  // namespace talos::parse
