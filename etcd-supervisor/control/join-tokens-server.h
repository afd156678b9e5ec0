// The join tokens for trustd (rpc/join-tokens.capnp). Keeps nothing.
#pragma once

#include "etcd-supervisor/tokens/join-token-book.h"

namespace talos::supervisor {

// `tokens` outlives it.
rpc::JoinTokens::Client serveJoinTokens(JoinTokenBook& tokens);

}  // namespace talos::supervisor
