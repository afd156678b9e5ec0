// What the machine is called and reached by, as the store has it.
#pragma once

#include "common/tls/node-certificate.h"
#include "machined/resources/store.h"

namespace talos::machined {

// All addresses that the node had since its boot, without prefix lengths: one that comes and goes
// needs no new certificate.
kj::Vector<kj::String> storedAddresses(Store& store);

// Of a certificate of this machine.
NodeNames storedNames(Store& store, kj::ArrayPtr<const kj::String> certSans);

}  // namespace talos::machined
