// Serves the join tokens to trustd (rpc/join-tokens.capnp). Keeps no state.
#pragma once

#include "etcd-supervisor/tokens/join-token-book.h"

namespace talos::supervisor {

// `tokens` must outlive the server.
rpc::JoinTokens::Client serveJoinTokens(JoinTokenBook& tokens);

}  // namespace talos::supervisor
