// The store over Cap'n Proto: Resources for users, Store for daemons of this machine.
//
// A caller's rights are the Access of the store view that the capability was made with; the code
// here only translates.
#pragma once

#include "machined/process1/client-call-limits.h"
#include "machined/resources/store.h"

namespace talos::machined {

// Serves reads. With `sensitive`, sensitive types can be read, too; without, they are refused with
// PermissionDenied naming os:admin. The number of watches that the client may have open at once is
// bounded (client-call-limits.h).
rpc::Resources::Client serveResources(Store& store, bool sensitive, kj::Own<ClientCalls> calls);

// Serves reads and writes, as far as the uid's row in resource-access.cc allows.
rpc::Store::Client serveStore(Store& store, unsigned uid);

}  // namespace talos::machined
