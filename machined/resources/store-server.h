// The store over Cap'n Proto: Resources for users, Store for daemons of this machine.
//
// A caller's rights are the Access of the store view that the capability was made with; the code
// here only translates.
#pragma once

#include "machined/process1/client-call-limits.h"
#include "machined/resources/store.h"

namespace talos::machined {

// Reading. With `sensitive` the types that are marked so as well; without, they are refused with
// PermissionDenied naming os:admin.
// How many watches the client may have open at once is bounded (client-call-limits.h).
rpc::Resources::Client serveResources(Store& store, bool sensitive, kj::Own<ClientCalls> calls);

// Reading and writing, as much as the uid's row in resource-access.cc allows.
rpc::Store::Client serveStore(Store& store, unsigned uid);

}  // namespace talos::machined
