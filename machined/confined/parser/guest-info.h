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

}  // namespace talos::parse
